"""The run-time state of a host is shown, and reset."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


async def test_an_ejected_host_is_reset_and_shows_its_state(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    host_id = await catalog.host()
    url = f"/hosts/by-id/{host_id}"
    assert (await admin.get(f"{url}/status")).json() == {"status": {"state": "ejected"}}
    assert (await admin.get(f"/hosts/{host_id}")).json()["status"] == {"state": "ejected"}
    assert (await admin.post(f"{url}/reset")).json() == {"status": {"state": "available"}}
    listed = (await admin.get("/hosts")).json()["items"]
    assert [one["status"]["state"] for one in listed] == ["available"]


@pytest.mark.parametrize("ref", ["00000000-0000-7000-8000-000000000000", "acme"])
async def test_a_host_that_is_not_there_has_no_state(admin: httpx.AsyncClient, ref: str) -> None:
    assert (await admin.get(f"/hosts/by-id/{ref}/status")).status_code == 404
    assert (await admin.post(f"/hosts/by-id/{ref}/reset")).status_code == 404
