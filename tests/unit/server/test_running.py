"""What ``doctor`` says of a gateway that runs, or does not."""

from __future__ import annotations

from pathlib import Path

from relay_gateway.secret import Secret
from relay_gateway.server.running import check_running
from relay_gateway.settings import Settings
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import Script, json_response
from relay_gateway.testing.upstream import ScriptedUpstream

FINE = {"state": "available", "reason": None, "secondsLeft": None}


def settings(directory: Path, url: str) -> Settings:
    port = int(url.rpartition(":")[2])
    return Settings(data_dir=directory, control_port=port, admin_token=Secret("t" * 32))


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

    def listed(request: SeenRequest) -> Script:
        assert request.header("authorization") == f"Bearer {'t' * 32}"
        return json_response(200, {"items": items, "total": 3})

    async with ScriptedUpstream(listed) as control:
        found = await check_running(settings(tmp_path, control.url))
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
    async with ScriptedUpstream(lambda _: json_response(200, {"items": [item("a")]})) as control:
        (found,) = await check_running(settings(tmp_path, control.url))
    assert found.ok
    assert "all host keys" in found.detail
