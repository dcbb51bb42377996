"""Room for connections follows from how many files the process may have open."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from relay_gateway.server.open_files import MOST, PREPARED, RESERVED, room_for_connections

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


PREPARE = """
import os, resource
from relay_gateway.server.open_files import prepare_table
resource.setrlimit(resource.RLIMIT_NOFILE, (64, {allowed}))
for number in range({taken}):
    os.dup(0)
taken = os.listdir("/proc/self/fd")
prepare_table()
assert len(os.listdir("/proc/self/fd")) == len(taken)
(line,) = [line for line in open("/proc/self/status") if line.startswith("FDSize:")]
print(line.split()[1])
"""


@pytest.mark.parametrize(
    ("allowed", "taken"),
    [(PREPARED, 0), (1000, 0), (64, 50)],
)
def test_t41_the_table_of_open_files_has_room_for_as_many_as_there_may_be(
    allowed: int, taken: int
) -> None:
    program = PREPARE.format(allowed=allowed, taken=taken)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= allowed  # or more, where it was born with more


def test_t41_a_process_without_a_file_to_spare_goes_on() -> None:
    program = """
import os, resource
from relay_gateway.server.open_files import prepare_table
resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
try:
    while True:
        os.dup(0)
except OSError:
    pass
prepare_table()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
