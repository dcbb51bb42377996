"""How soon the dashboard is seen, by the clock of the browser itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from relay_gateway.testing.dashboard import WAIT_SECONDS, Dashboard

_LOADED = """
() => ({
  bytes: performance.getEntriesByType("resource")
    .filter((one) => new URL(one.name).pathname.startsWith("/ui/"))
    .reduce((sum, one) => sum + one.transferSize,
            performance.getEntriesByType("navigation")[0].transferSize),
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
})
"""
_AFTER_DATA = """
async ([path, selector, api]) => {
  const frame = () => new Promise(requestAnimationFrame);
  const answers = () => performance.getEntriesByType("resource")
    .map((one) => [new URL(one.name), one.responseEnd])
    .filter(([url, end]) => (url.pathname + url.search).startsWith(api) && end <= seen)
    .map(([, end]) => end);
  let seen = 0;
  performance.clearResourceTimings();
  history.pushState(null, "", path);
  dispatchEvent(new Event("popstate"));
  while (!document.querySelector(selector)) await frame();
  seen = performance.now();
  await frame();
  const drawn = performance.now();
  while (!answers().length) await frame();
  return drawn - Math.max(...answers());
}
"""
_SCROLL_ON = """
async (rows) => {
  const grid = document.querySelector("[role=grid]");
  const loaded = () => Number(grid.getAttribute("aria-rowcount"));
  const shown = () => Number([...grid.querySelectorAll("[role=row]")].at(-1).ariaRowIndex);
  const frame = () => new Promise(requestAnimationFrame);
  do {
    grid.scrollTo(0, grid.scrollHeight);
    await frame();
  } while (loaded() <= rows);
  grid.scrollTo(0, grid.scrollHeight);
  while (shown() < loaded()) await frame();
  return loaded();
}
"""


@dataclass(frozen=True, slots=True)
class View:
    """A view, and how it is told that it shows what was asked for.

    ``selector`` finds something that is only there with the data, and ``api`` is how the address
    begins that the data come from.
    """

    name: str
    path: str
    selector: str
    api: str


@dataclass(frozen=True, slots=True)
class FirstLoad:
    """``sent_bytes`` of the dashboard's own files, and ``paint_ms`` until anything was seen."""

    sent_bytes: int
    paint_ms: float


async def first_load(operator: Dashboard, path: str = "/") -> FirstLoad:
    """Opens the dashboard and waits until nothing is loading any more."""
    await operator.open(path)
    await operator.settled()
    loaded = await operator.page.evaluate(_LOADED)
    return FirstLoad(loaded["bytes"], loaded["paint"])


async def after_data(operator: Dashboard, view: View, *, times: int) -> Sequence[float]:
    """Goes to ``view`` so many times; milliseconds from the end of the last answer that it shows
    to the frame after it was in the page. The first visit, which loads the program, is none."""
    took = []
    await operator.go(view.path)
    for _ in range(times):
        await operator.go("/nowhere")
        given = [f"/ui{view.path}", view.selector, view.api]
        async with asyncio.timeout(WAIT_SECONDS):
            took.append(await operator.page.evaluate(_AFTER_DATA, given))
        await operator.settled()
    return took


async def scroll_on(operator: Dashboard, rows: int) -> int:
    """Goes to the end of a list that has loaded ``rows``, until it has more of them and shows the
    last; returns how many."""
    async with asyncio.timeout(WAIT_SECONDS):
        return int(await operator.page.evaluate(_SCROLL_ON, rows))


def figures(name: str, milliseconds: Sequence[float]) -> str:
    """A row of a table in Markdown: the median and the longest."""
    return f"| {name} | {median(milliseconds):.0f} | {max(milliseconds):.0f} |"
