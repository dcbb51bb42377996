"""Room for connections follows from how many files the process may have open."""

from __future__ import annotations

import resource

import pytest

from relay_gateway.server.open_files import MOST, RESERVED, room_for_connections

Limits = tuple[int, int]
UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "raised", "room"),
    [
        ((1024, 4096), (4096, 4096), (4096 - RESERVED) // 2),
        ((4096, 4096), None, (4096 - RESERVED) // 2),
        ((1024, UNLIMITED), (MOST, UNLIMITED), (MOST - RESERVED) // 2),
        ((UNLIMITED, UNLIMITED), None, (MOST - RESERVED) // 2),
        ((10, 10), None, 1),
    ],
)
def test_t41_files_are_kept_for_what_is_not_a_connection(
    limits: Limits, raised: Limits | None, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Limits] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: said.append(wanted))
    assert room_for_connections() == room
    assert said == ([] if raised is None else [raised])
