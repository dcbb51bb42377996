// The gateway's own metrics, as Prometheus reads them too.
import { get } from "./api.js";

const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/g;

/** Samples by the name of their metric: `[{ labels, value }]`. */
export async function readMetrics(signal) {
  const text = (await get("/metrics", {}, signal)) ?? "";
  const found = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value] = LINE.exec(line) ?? [];
    if (!name) continue;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels: Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, one]) => [key, one])), value: Number(value) });
  }
  return found;
}
