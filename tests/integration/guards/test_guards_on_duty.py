"""Guards come on duty and go off while a gateway serves, and are told of wherever plugins are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relay_gateway.cli.plugin_trace import Trace
from relay_gateway.errors import ConfigurationError, PluginUnavailableError
from relay_gateway.registry import Change, PluginKind, Registry
from relay_gateway.testing.guarded import GuardedGateway, guarded
from relay_gateway.testing.instances import until

from .watchers import HOSTS, Hooks, hang, refuse

CHAT = "/v1/chat/completions"
ASKED = b'{"model":"chat","messages":[{"role":"user","content":"Hello"}]}'


@pytest.fixture
def relay_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a gateway of the test reads its plugins from when it reloads."""
    path = tmp_path / "relay.toml"
    path.write_text("", "utf-8")
    monkeypatch.setenv("RELAY_CONFIG", str(path))
    return path


async def reload(world: GuardedGateway, path: Path, text: str) -> list[tuple[str, Change]]:
    path.write_text(text, "utf-8")
    changes = await world.gateway.plugin_reload.reload()
    return [(one.name, one.change) for one in changes if one.kind is PluginKind.GUARD]


async def status(world: GuardedGateway) -> int:
    return (await world.send(CHAT, ASKED)).status


def states(world: GuardedGateway) -> dict[str, str]:
    found = world.gateway.plugins.inventory()
    return {one.name: str(one.state) for one in found if one.kind is PluginKind.GUARD}


async def test_guards_are_put_on_duty_reconfigured_and_taken_off_without_a_restart(
    tmp_path: Path, relay_toml: Path
) -> None:
    hooks = Hooks("strict", "watch")
    hooks.guards["strict"].on_request = staticmethod(refuse)
    on_duty = '[guarding]\norder = ["strict", "watch"]\n'
    async with guarded(tmp_path, HOSTS, hooks) as world:
        assert await status(world) == 200
        changes = await reload(world, relay_toml, on_duty)
        assert changes == [("strict", Change.ENABLED), ("watch", Change.ENABLED)]
        assert (states(world)["strict"], states(world)["watch"]) == ("open", "open")
        assert await status(world) == 403
        changes = await reload(world, relay_toml, f"{on_duty}[guards.strict]\ndry_run = true\n")
        assert changes == [("strict", Change.RECONFIGURED)]
        assert (await status(world), len(hooks.guards["watch"].seen)) == (200, 2)
        changes = await reload(world, relay_toml, '[guarding]\norder = ["watch"]\n')
        assert changes == [("strict", Change.DISABLED)]
        assert await reload(world, relay_toml, "") == [("watch", Change.DISABLED)]
        hooks.guards["watch"].seen.clear()
        assert (await status(world), hooks.guards["watch"].seen) == (200, [])


async def test_a_request_that_has_begun_ends_with_the_guards_it_began_with(
    tmp_path: Path, relay_toml: Path
) -> None:
    hooks = Hooks("slow", on_response=hang)
    hooks.guards["slow"].deadline = 60.0
    async with guarded(tmp_path, HOSTS, hooks, order=["slow"]) as world:
        asking = asyncio.create_task(world.send(CHAT, ASKED))
        await until(lambda: len(hooks.guards["slow"].seen) == 2)
        await reload(world, relay_toml, "")
        assert await status(world) == 200
        assert not asking.done(), "its answer is being judged yet"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[guarding]\norder = ["nobody"]\n', "no guard named 'nobody' is installed"),
        (
            '[guarding]\norder = ["watch"]\n[guards.watch]\nendpoints = ["chat"]\n',
            r"\[guards.watch\] endpoints: there is no chat; there are: .*chat.completions",
        ),
        ('[guards.watch]\ndry_run = "maybe"\n', "dry_run"),
    ],
)
async def test_a_reload_that_is_not_valid_changes_nothing(
    tmp_path: Path, relay_toml: Path, text: str, why: str
) -> None:
    hooks = Hooks("watch", on_request=refuse)
    async with guarded(tmp_path, HOSTS, hooks, order=["watch"]) as world:
        with pytest.raises(ConfigurationError, match=why):
            await reload(world, relay_toml, text)
        assert await status(world) == 403


async def test_a_start_with_a_guard_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginUnavailableError, match="no guard named 'nobody' is installed"):
        async with guarded(tmp_path, HOSTS, order=["nobody"]):
            pass


async def test_a_start_with_a_scope_that_is_not_there_is_refused(tmp_path: Path) -> None:
    sections = {"watch": {"endpoints": ["chat"]}}
    with pytest.raises(ConfigurationError, match="there is no chat"):
        async with guarded(tmp_path, HOSTS, Hooks("watch"), order=["watch"], guards=sections):
            pass


async def test_a_guard_that_is_not_open_is_as_one_that_fails(tmp_path: Path) -> None:
    async def broken(_guard: object) -> None:
        raise OSError("nobody is there")

    hooks = Hooks("shut", aopen=broken)
    async with guarded(tmp_path, HOSTS, hooks, order=["shut"]) as world:
        caller = await world.send(CHAT, ASKED)
        assert (caller.status, hooks.guards["shut"].seen) == (503, [])
        assert b"the guard 'shut' could not judge this request" in caller.body


async def test_a_guard_is_shown_counted_and_explained(tmp_path: Path) -> None:
    async with guarded(tmp_path, HOSTS, Hooks("watch"), order=["watch"]) as world:
        record = await world.record(await world.send(CHAT, ASKED))
        items = (await world.admin.get("/plugins")).json()["items"]
        (shown,) = [one for one in items if (one["kind"], one["name"]) == ("guard", "watch")]
        metrics = (await world.admin.get("/metrics")).text
    assert shown["state"] == "open"
    assert {"dry_run", "endpoints", "policies"} <= set(shown["configSchema"]["properties"])
    assert 'relay_plugin_calls_total{kind="guard",plugin="watch"} 2' in metrics
    line = 'decision="allowed",dry_run="false",guard="watch",phase="request"'
    assert f"relay_guard_decisions_total{{{line}}} 1" in metrics
    steps = list(Trace(Registry.discover(), {}, {}).steps(record, "memory"))
    told = [(one.kind, one.plugin, one.did) for one in steps]
    first = told.index(("guard", "watch", "allowed the request"))
    assert first < told.index(("guard", "watch", "allowed the response"))
