"""Every view with a million records in the log: how soon it is seen, and how far it is scrolled."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import Dashboard, operator_at
from relay_gateway.testing.dashboard_speed import View, after_data, figures, first_load, scroll_on
from relay_gateway.testing.process import GatewayProcess

ANSWER_MS = 1500.0
"""How long a view may take from its address to its last answer drawn, on a machine of two cores
that also runs the gateway and the database."""
ROWS_ANSWER_MS = 10_000.0
"""The same where every row has to be looked at."""
ROWS = ("split=tag", "?tag=", "?q=", "?unpriced=")
PAINT_MS = 500.0
VIEW_MS = 100.0
LOADS = 7
VISITS = 7
FILTERS = (
    "relayKeyId=relay-007",
    "modelId=model-3",
    "hostId=host-3",
    "policyId=policy-3",
    "outcome=upstream_error",
    "outcome=timeout",
    "status=429",
    "errorCode=rate_limit_exceeded",
    "tag=team%3Ateam-3",
    "tag=team%3Anobody",
    "streamed=true",
    "unpriced=true",
    "since=7d",
    "q=acme-9",
    "q=nobody-has-this",
)
SPLITS = ("model", "provider", "relayKey", "policy", "host", "outcome", "tag:team")
VIEWS = (
    View("overview", "/?period=30d", "button.tile", "/usage/summary?"),
    View("logs", "/logs", ".log-line", "/logs?"),
    View("request", "/logs/{newest}", ".tiles", "/logs/"),
    View("explain", "/explain?model=echo", "main table", "/catalog/resolve"),
    View("policies", "/policies", "tbody tr", "/policies?"),
    View("models", "/models", "tbody tr", "/models?"),
    View("hosts", "/hosts", "tbody tr", "/hosts?"),
    View("a host", "/hosts/echo", "[data-save]", "/hosts/echo"),
    View("price lists", "/pricings", "tbody tr", "/pricings?"),
    View("plugins", "/plugins", "tbody tr", "/plugins"),
    View("settings", "/settings", "form", "/settings"),
    View("audit", "/audit", "tbody tr", "/audit?"),
    View("master key", "/master-key", "tbody tr", "/master-key/status"),
    View("first steps", "/first-steps", "#first-host", "/inference"),
)

_log = logging.getLogger(__name__)


async def test_every_view_answers_in_time(operator: Dashboard, newest: str) -> None:
    took: dict[str, float] = {}
    paths = [
        *(f"/?period={period}" for period in ("1h", "24h", "7d", "30d")),
        *(f"/?period=30d&split={split}" for split in SPLITS),
        "/logs",
        *(f"/logs?{one}" for one in FILTERS),
        f"/logs/{newest}",
    ]
    await operator.open("/")
    for path in paths:
        await operator.go("/nowhere")
        began = time.monotonic()
        await operator.go(path, seconds=60)
        took[path] = (time.monotonic() - began) * 1000
        await expect(operator.page.locator("main [role=alert]")).to_have_count(0)
        _log.info("%s: %.0f ms", path, took[path])
    by_rows = {path: one for path, one in took.items() if any(part in path for part in ROWS)}
    assert late(by_rows, ROWS_ANSWER_MS) == {}
    assert late({path: one for path, one in took.items() if path not in by_rows}, ANSWER_MS) == {}


async def test_the_log_is_scrolled_to_its_end(operator: Dashboard, records: int) -> None:
    await operator.open("/logs")
    await operator.settled()
    rows, slowest = 100, 0.0
    began = time.monotonic()
    while rows < records:
        step = time.monotonic()
        rows = await scroll_on(operator, rows)
        slowest = max(slowest, time.monotonic() - step)
        assert await operator.page.get_by_role("row").count() < 80
    whole = time.monotonic() - began
    _log.info("%d rows in %.0f s, the slowest step %.0f ms", rows, whole, slowest * 1000)
    last = operator.page.get_by_role("row").last
    await expect(last).to_have_attribute("aria-rowindex", str(records))
    await last.get_by_role("link").click()
    await expect(operator.page.locator(".tiles")).to_be_visible()


async def test_views_are_seen_at_once(
    browser: Browser, gateway: GatewayProcess, newest: str
) -> None:
    paints = []
    for _ in range(LOADS):
        async with operator_at(browser, gateway) as operator:
            paints.append((await first_load(operator)).paint_ms)
    again = []
    took: dict[str, float] = {}
    async with operator_at(browser, gateway) as operator:
        await first_load(operator)
        again = [(await first_load(operator)).paint_ms for _ in range(LOADS)]
        _log.info("%s", figures("first paint", paints))
        _log.info("%s", figures("first paint of a page that is known", again))
        for view in VIEWS:
            shown = View(view.name, view.path.format(newest=newest), view.selector, view.api)
            visits = await after_data(operator, shown, times=VISITS)
            took[view.name] = sorted(visits)[VISITS // 2]
            _log.info("%s", figures(view.name, visits))
    assert sorted(paints)[LOADS // 2] < PAINT_MS
    assert late(took, VIEW_MS) == {}


def late(took: Mapping[str, float], bound: float) -> dict[str, float]:
    """Those that took longer than ``bound`` milliseconds."""
    return {name: round(one) for name, one in took.items() if one > bound}
