"""The fake clock and the context of a plugin under test."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from relay_gateway.plugin import Clock
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import master_key, plugin_context


def test_both_readings_advance_together(fake_clock: FakeClock) -> None:
    clock: Clock = fake_clock
    before = clock.monotonic(), clock.time()
    fake_clock.advance(1.5)
    assert (clock.monotonic(), clock.time()) == (before[0] + 1.5, before[1] + 1.5)


def test_a_step_of_the_wall_clock_leaves_the_other_alone() -> None:
    clock = FakeClock(100.0)
    monotonic = clock.monotonic()
    clock.set_time(50.0)
    assert (clock.monotonic(), clock.time()) == (monotonic, 50.0)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="set_time"):
        FakeClock().advance(-1)


async def test_a_context_shows_only_what_it_was_given(tmp_path: Path) -> None:
    context = plugin_context(tmp_path, environ={"A": "1"})
    assert context.environ("A") == "1"
    assert context.environ("PATH") is None
    assert context.database_url == f"sqlite:///{tmp_path}/relay.sqlite3"
    assert context.data_dir == tmp_path
    assert await context.run_blocking(len, "abc") == 3
    await context.aclose()


def test_master_keys_are_valid_and_told_apart_by_seed(tmp_path: Path) -> None:
    first, second = master_key().reveal(), master_key("second").reveal()
    assert len(base64.b64decode(first, validate=True)) == 32
    assert first != second
    assert plugin_context(tmp_path).master_keys[0].matches(first)
    assert plugin_context(tmp_path, master_keys=[]).master_keys == ()
