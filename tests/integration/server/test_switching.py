"""Sinks are switched by the control plane while records flow, and each record is kept once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.plugin import LogQuery, UsageReader
from relay_gateway.registry import PluginKind, Registry
from relay_gateway.server.gateway import Gateway
from relay_gateway.testing.instances import Instances, control_of, until
from relay_gateway.testing.records import usage_record

SECTION = "/settings/usage-logging"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    instances = Instances(tmp_path, Registry.discover())
    url = f"sqlite:///{tmp_path}/relay.sqlite3"
    yield await instances.open(url, usage_logging={"sinks": ("database",)})
    await instances.close()


async def kept(gateway: Gateway, name: str) -> list[str]:
    sink = gateway.plugins.usage_sink(name)
    await gateway.plugins.opened(PluginKind.USAGE_SINK, name)
    assert isinstance(sink, UsageReader)
    page = await sink.query(LogQuery(limit=1000))
    return sorted(record.request_id for record in page.items)


async def test_sinks_switched_ten_times_under_load_keep_what_was_theirs(gateway: Gateway) -> None:
    wanted: dict[str, list[str]] = {"database": [], "file": []}
    delivery = gateway.sinks.delivery
    async with control_of(gateway) as admin:
        for turn in range(10):
            names = (["file"], ["database"], ["database", "file"])[turn % 3]
            for _ in range(20):
                delivery.put(record := usage_record())
                for name in delivery.spool.usage.sinks:
                    wanted[name].append(record.request_id)
            answer = await admin.put(SECTION, json={"sinks": names})
            assert (answer.status_code, answer.json()) == (200, {"sinks": names})
            assert delivery.spool.usage.sinks == tuple(names)
            assert (await admin.get("/logs")).status_code == 200
        await until(lambda: all(line.waits for line in delivery.lines))
    assert {name: await kept(gateway, name) for name in wanted} == {
        name: sorted(ids) for name, ids in wanted.items()
    }


async def test_a_sink_that_is_taken_out_is_closed_when_it_has_everything(gateway: Gateway) -> None:
    async with control_of(gateway) as admin:
        await admin.put(SECTION, json={"sinks": ["file"]})

    def states() -> set[tuple[str, str]]:
        return {
            (plugin.name, str(plugin.state))
            for plugin in gateway.plugins.inventory()
            if plugin.kind == "usage sink"
        }

    await until(lambda: ("database", "closed") in states())
    assert ("file", "open") in states()


@pytest.mark.parametrize(
    ("section", "field"), [("usage-logging", "sinks"), ("payload-logging", "loggers")]
)
async def test_a_sink_that_cannot_be_had_is_refused_with_the_reason(
    gateway: Gateway, section: str, field: str
) -> None:
    async with control_of(gateway) as admin:
        before = (await admin.get(f"/settings/{section}")).json()
        refused = await admin.put(f"/settings/{section}", json={field: ["database", "nowhere"]})
        assert refused.status_code == 422
        assert f"{field}[1]" in refused.text
        assert "nowhere" in refused.text
        assert (await admin.get(f"/settings/{section}")).json() == before


async def test_a_sink_that_cannot_be_opened_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_text("")
    instances = Instances(tmp_path, Registry.discover())
    gateway = await instances.open(
        f"sqlite:///{tmp_path}/relay.sqlite3",
        usage_logging={"sinks": ("database",)},
        usage_sinks={"file": {"path": f"{tmp_path}/a-file/usage.jsonl"}},
    )
    async with control_of(gateway) as admin:
        refused = await admin.put(SECTION, json={"sinks": ["file"]})
        assert refused.status_code == 422, refused.text
        assert "sinks[0]" in refused.text
        assert (await admin.get(SECTION)).json() == {"sinks": ["database"]}
    await instances.close()


async def test_what_was_set_counts_more_than_relay_toml_after_a_restart(tmp_path: Path) -> None:
    instances = Instances(tmp_path, Registry.discover())
    url = f"sqlite:///{tmp_path}/relay.sqlite3"
    first = await instances.open(url, usage_logging={"sinks": ("database",)})
    async with control_of(first) as admin:
        await admin.put(SECTION, json={"sinks": ["file"]})
    await instances.close()
    second = await instances.open(url, usage_logging={"sinks": ("database",)})
    assert second.sinks.delivery.spool.usage.sinks == ("file",)
    await instances.close()
