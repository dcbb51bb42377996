// A list of any length: only the rows that can be seen are in the page.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../core/html.js";

const AROUND = 12;
/** Browsers draw nothing beyond some height; a longer list is scrolled in larger steps. */
const TALLEST = 15_000_000;

/**
 * `rows` of `height` pixels each, drawn by `draw(row)`. `onEnd()` is called when the end comes near,
 * so that more can be loaded. What is looked at stays in its place when rows are added before it.
 */
export function VirtualList({ rows, height, draw, rowKey, onEnd, label }) {
  const root = useRef(null);
  const [seen, setSeen] = useState({ top: 0, count: 40 });
  const firstKey = rows.length ? rowKey(rows[0]) : null;
  const anchor = useRef(null);
  const measure = () => {
    const box = root.current;
    setSeen({ top: box.scrollTop, count: Math.ceil(box.clientHeight / height) });
  };
  const whole = rows.length * height;
  const tall = Math.min(whole, TALLEST);
  const room = seen.count * height;
  const faster = tall > room ? (whole - room) / (tall - room) : 1;
  useEffect(() => {
    measure();
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  useLayoutEffect(() => {
    const box = root.current;
    const old = anchor.current;
    anchor.current = firstKey;
    if (old === null || old === firstKey || box.scrollTop < height) return;
    const added = rows.findIndex((row) => rowKey(row) === old);
    if (added > 0) box.scrollTop += (added * height) / faster;
  }, [firstKey]);
  const from = Math.max(0, Math.floor((seen.top * faster) / height) - AROUND);
  const place = seen.top + from * height - seen.top * faster;
  const to = Math.min(rows.length, from + seen.count + 2 * AROUND);
  // Each time it is drawn, for what was asked for last may not have been to be had then.
  useEffect(() => {
    if (to >= rows.length - 2 * AROUND) onEnd?.();
  });
  return html`<div class="virtual" ref=${root} onScroll=${measure} tabindex="0" role="grid" aria-label=${label} aria-rowcount=${rows.length}>
    <div role="presentation" ref=${(element) => element && (element.style.height = `${tall}px`)}>
      <div role="rowgroup" data-rows ref=${(element) => element && (element.style.transform = `translateY(${place}px)`)}>
        ${rows.slice(from, to).map((row, index) => draw(row, from + index))}
      </div>
    </div>
  </div>`;
}
