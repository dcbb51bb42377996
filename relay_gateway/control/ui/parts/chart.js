// Charts over time, drawn by uPlot, with the same figures as a table for whoever cannot see them.
import { html, useEffect, useRef } from "../core/html.js";
import { axisTime, moment, timeZone } from "../core/format.js";
import { t } from "../strings.js";

/** How many colours of lines the theme has. */
const COLOURS = 8;
let library = null;

/** The library, loaded once; a view that will have a chart asks for it beside its data. */
export function loadCharts() {
  library ??= Promise.all([
    import("../vendor/uplot.js"),
    new Promise((resolve) => {
      const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../vendor/uplot.css", import.meta.url).href });
      link.onload = resolve;
      document.head.append(link);
    }),
  ]).then(([module]) => module.default);
  return library;
}

/** A colour of the theme as it is at `element`, for a canvas knows no variables. */
function colourAt(element, name) {
  element.style.color = `var(${name})`;
  const colour = getComputedStyle(element).color;
  element.style.color = "";
  return colour;
}

function optionsFor(series, root, format, uPlot) {
  const line = colourAt(root, "--line");
  const colours = series.map((one, index) => colourAt(root, one.muted ? "--text-2" : `--series-${(index % COLOURS) + 1}`));
  const axis = { stroke: colourAt(root, "--text-2"), grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    width: root.clientWidth,
    height: 220,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), timeZone() ?? Intl.DateTimeFormat().resolvedOptions().timeZone),
    cursor: { drag: { x: false, y: false } },
    legend: { live: true },
    series: [
      { value: (_, seconds) => (seconds ? moment(seconds * 1000, { seconds: false }) : "–") },
      ...series.map((one, index) => ({
        label: one.label,
        stroke: colours[index],
        width: 2,
        fill: series.length === 1 ? colours[0].replace(/^rgb\((.*)\)$/, "rgba($1, 0.13)") : undefined,
        points: { show: one.values.length < 2 },
        value: (_, value) => (value === null ? "–" : format(value)),
      })),
    ],
    axes: [{ ...axis, values: (_, seconds) => seconds.map((one, index) => axisTime(one, seconds[index - 1])) }, { ...axis, size: 64, values: (_, values) => values.map((value) => format(value)) }],
  };
}

/** `times` in seconds since the epoch; `series` are `{ label, values }` with a value for each, `muted` where all that is left is drawn. */
export function Chart({ title, times, series, format = String }) {
  const root = useRef(null);
  useEffect(() => {
    let chart = null;
    let gone = false;
    const draw = (uPlot) => {
      if (gone || !root.current) return;
      chart?.destroy();
      const options = optionsFor(series, root.current, format, uPlot);
      chart = new uPlot(options, [times, ...series.map((one) => one.values)], root.current);
    };
    const whole = loadCharts();
    whole.then(draw);
    const resized = new ResizeObserver(([entry]) => gone || chart?.setSize({ width: entry.contentRect.width, height: 220 }));
    resized.observe(root.current);
    const themed = () => whole.then(draw);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", themed);
    const chosen = new MutationObserver(themed);
    chosen.observe(document.documentElement, { attributeFilter: ["data-theme", "data-zone"] });
    return () => {
      gone = true;
      chosen.disconnect();
      scheme.removeEventListener("change", themed);
      resized.disconnect();
      chart?.destroy();
    };
  }, [times, series]);
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <div ref=${root} aria-hidden="true"></div>
    <details>
      <summary>${t.overview.asTable}</summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${title}>
        <table class="table">
          <thead><tr><th scope="col">${t.overview.time}</th>${series.map((one) => html`<th scope="col" class="figure">${one.label}</th>`)}</tr></thead>
          <tbody>
            ${times.map((time, index) => html`<tr key=${time}><td>${moment(time * 1000, { seconds: false })}</td>${series.map((one) => html`<td class="figure">${one.values[index] === null ? "–" : format(one.values[index])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
    </details>
  </figure>`;
}
