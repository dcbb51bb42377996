"""How much is loaded, how soon it is seen, and that a long log stays quick; prints the figures."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import SLOWDOWN, Dashboard, operator_at
from relay_gateway.testing.dashboard_speed import View, after_data, first_load, scroll_on
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.usage_month import fill_month

RECORDS = 20_000
FIRST_LOAD_BYTES = 200_000
PAINT_MS = 2000.0 * SLOWDOWN
VIEW_MS = 400.0 * SLOWDOWN
"""Four times the promises, for a machine on which everything else runs, too; the promises
themselves are held in ``tests/dashboard_long``."""
VISITS = 5
LINES = 8
"""Groups that have a line of their own in a chart; all others have one together."""
VIEWS = (
    View("models", "/models", "tbody tr", "/models?"),
    View("audit", "/audit", "tbody tr", "/audit?"),
    View("plugins", "/plugins", "tbody tr", "/plugins"),
    View("settings", "/settings", "form", "/settings"),
)


async def test_the_first_load_is_small_and_soon_seen(
    browser: Browser, gateway: GatewayProcess
) -> None:
    async with operator_at(browser, gateway) as operator:
        loaded = await first_load(operator)
    print(f"{loaded.sent_bytes} bytes, first paint after {loaded.paint_ms:.0f} ms")  # noqa: T201
    assert loaded.sent_bytes < FIRST_LOAD_BYTES
    assert loaded.paint_ms < PAINT_MS


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
async def test_a_view_is_drawn_soon_after_its_data(operator: Dashboard, view: View) -> None:
    await operator.open("/nowhere")
    took = await after_data(operator, view, times=VISITS)
    print(f"{view.path} is drawn {min(took):.0f} to {max(took):.0f} ms after its data")  # noqa: T201
    assert min(took) < VIEW_MS


async def test_a_long_log_stays_quick_to_its_end(browser: Browser, tmp_path: Path) -> None:
    await fill_month(tmp_path / "data", RECORDS)
    async with (
        GatewayProcess(tmp_path, {"RELAY_LOG_LEVEL": "warning"}) as gateway,
        operator_at(browser, gateway) as operator,
    ):
        page = operator.page
        for path in ("/?period=30d", "/?period=7d&split=relayKey", "/logs"):
            began = time.monotonic()
            await operator.open(path)
            await operator.settled()
            took = time.monotonic() - began
            print(f"{path} with {RECORDS} records: {took * 1000:.0f} ms")  # noqa: T201
            assert took < 20 * SLOWDOWN
            if "relayKey" in path:
                lines = page.locator(".u-legend .u-series")
                await expect(lines).to_have_count(1 + LINES + 1)
                await expect(lines.last).to_contain_text("All others")
        rows = 100
        while rows < RECORDS:
            rows = await scroll_on(operator, rows)
            assert await page.get_by_role("row").count() < 80
        await expect(page.get_by_role("row").last).to_have_attribute("aria-rowindex", str(RECORDS))
