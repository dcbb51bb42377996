"""What ``doctor`` says of a gateway that runs, or does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from relay_gateway.secret import Secret
from relay_gateway.server.running import check_running
from relay_gateway.settings import Settings
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import Script, json_response
from relay_gateway.testing.upstream import Answer, ScriptedUpstream

FINE = {"state": "available", "reason": None, "secondsLeft": None}


def settings(directory: Path, url: str) -> Settings:
    port = int(url.rpartition(":")[2])
    return Settings(data_dir=directory, control_port=port, admin_token=Secret("t" * 32))


def process(gateway: str, **told: object) -> dict[str, object]:
    said = {"gatewayId": gateway, "gateway": f"{gateway}:8080", "process": "gateway"}
    return {**said, "silent": False, "lagging": False, **told}


def told(keys: Sequence[Mapping[str, object]], instances: Sequence[Mapping[str, object]]) -> Answer:
    """What a gateway answers that runs."""

    def answer(request: SeenRequest) -> Script:
        assert request.header("authorization") == f"Bearer {'t' * 32}"
        return json_response(200, {"items": instances if request.target == "/instances" else keys})

    return answer


def item(slug: str, **status: object) -> dict[str, object]:
    return {"metadata": {"slug": slug}, "status": {**FINE, "models": [], "host": FINE, **status}}


async def test_what_is_left_out_is_told_with_reason_and_time(tmp_path: Path) -> None:
    host = {"state": "ejected", "reason": "status 500", "secondsLeft": 28.5}
    bench = {"modelId": "m1", "reason": "throttled by the upstream", "secondsLeft": 7.0}
    items = [
        item("fine"),
        item("dead", state="benched", reason="refused by the upstream", secondsLeft=61.0),
        item("partly", models=[bench], host=host),
    ]

    async with ScriptedUpstream(told(items, [])) as control:
        *found, _ = await check_running(settings(tmp_path, control.url))
    assert [(one.name, one.ok, one.detail) for one in found] == [
        ("host key dead in use", False, "benched, 61 s left: refused by the upstream"),
        (
            "host key partly in use",
            False,
            "left out for model m1, 7 s left: throttled by the upstream",
        ),
        ("host key partly in use", False, "its host is ejected, 28.5 s left: status 500"),
    ]


async def test_a_gateway_that_is_not_there_or_refuses_is_no_trouble_by_itself(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream(lambda _: json_response(401, {})) as control:
        (refused,) = await check_running(settings(tmp_path, control.url))
    (absent,) = await check_running(settings(tmp_path, control.url))
    assert (refused.ok, absent.ok) == (True, True)
    assert "401" in refused.detail
    assert "none answers" in absent.detail


async def test_keys_that_are_all_in_use_are_said_to_be(tmp_path: Path) -> None:
    async with ScriptedUpstream(told([item("a")], [])) as control:
        found, _ = await check_running(settings(tmp_path, control.url))
    assert found.ok
    assert "all host keys" in found.detail


async def test_instances_that_are_silent_or_lag_are_told_and_all_others_counted(
    tmp_path: Path,
) -> None:
    silent = {"silent": True, "lastSeenAt": "2026-01-31T12:00:00.000Z", "seenSecondsAgo": 61.4}
    lagging = {"lagging": True, "lagRevisions": 3, "lagSeconds": 20.2}
    ill = [process("well"), process("dead", **silent), process("slow", **lagging)]
    async with ScriptedUpstream(told([], ill)) as control:
        _, *found = await check_running(settings(tmp_path, control.url))
    assert [(one.name, one.ok, one.detail) for one in found] == [
        (
            "instance dead:8080 gateway up to date",
            False,
            "not seen since 2026-01-31T12:00:00.000Z, for 61 s",
        ),
        ("instance slow:8080 gateway up to date", False, "3 revisions behind for 20 s"),
    ]
    async with ScriptedUpstream(told([], [process("a"), process("a"), process("b")])) as control:
        _, well = await check_running(settings(tmp_path, control.url))
    assert well.ok
    assert well.detail == "gateways: 2, processes: 3; all are heard of and up to date"
