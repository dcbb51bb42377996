"""How ``tail`` words a record."""

from __future__ import annotations

from typing import Any, cast

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.cli.usage import format_line
from relay_gateway.plugin import UsageRecord
from relay_gateway.server.usage_access import UsageDesk


def test_t51_a_terminal_obeys_nothing_in_a_record() -> None:
    record = UsageRecord(
        request_id="r-1",
        started_at="2026-01-01T12:13:14.156Z",
        status=200,
        requested_model="\x1b[2J\x07evil\n200 fake",
        relay_key_id="k",
        tokens={"input": 3, "output": 4},
        cost_nanos=1_500_000_000,
        currency="USD",
    )
    key = EntityRow(id="k", kind="relay-key", slug="my-app", display_name="My app", spec={})
    line = format_line(record, UsageDesk("memory", cast("Any", None), [key], corrects=False))
    assert line.isprintable()
    assert line.startswith("12:13:14.156  200  ")
    assert "my-app" in line
    assert "3+4 tokens  1.5 USD" in line
