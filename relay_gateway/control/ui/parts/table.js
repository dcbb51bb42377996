// Tables: sorted by their heads, opened with a click or by keyboard.
import { html, classes, useRef } from "../core/html.js";
import { navigate } from "../core/router.js";

/**
 * `columns` are `{ key, title, cell(row), figure, sorts }`; `link(row)` is the view of a row. The
 * keys J and K move between rows, Enter opens one.
 */
export function Table({ columns, rows, link, sort, onSort, label, rowKey = (row) => row.metadata?.id }) {
  const body = useRef(null);
  const open = (row) => (event) => {
    if (event.target.closest("a, button, input, select")) return;
    if (String(getSelection())) return;
    navigate(link(row));
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table class="table">
      <thead>
        <tr>
          ${columns.map((column) => html`<${Head} ...${{ column, sort, onSort }} />`)}
        </tr>
      </thead>
      <tbody ref=${body} data-rows>
        ${rows.map(
          (row) => html`<tr key=${rowKey(row)} class=${link && "opens"} onClick=${link && open(row)}>
            ${columns.map(
              (column) => html`<td class=${classes(column.figure && "figure")}>${column.cell(row)}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Head({ column, sort = "", onSort }) {
  const figure = classes(column.figure && "figure");
  if (!column.sorts || !onSort) return html`<th scope="col" class=${figure}>${column.title}</th>`;
  const up = sort === column.sorts;
  const down = sort === `-${column.sorts}`;
  const next = up ? `-${column.sorts}` : column.sorts;
  return html`<th scope="col" class=${figure} aria-sort=${up ? "ascending" : down ? "descending" : "none"}>
    <button type="button" onClick=${() => onSort(next)}>
      ${column.title}<span aria-hidden="true">${up ? "↑" : down ? "↓" : ""}</span>
    </button>
  </th>`;
}

/** Moves the focus to the next (1) or previous (-1) row that can be opened. */
export function moveRow(step) {
  const links = [...document.querySelectorAll("[data-rows] tr a, [data-rows] [data-row]")];
  const rows = links.filter((one, index) => links.findIndex((it) => it.closest("tr, [data-row]") === one.closest("tr, [data-row]")) === index);
  if (!rows.length) return;
  const here = rows.findIndex((one) => one === document.activeElement || one.closest("tr")?.contains(document.activeElement));
  rows[Math.min(rows.length - 1, Math.max(0, here + step))].focus();
}
