"""Processes kept to one core each, so that a test measures one of them and not their quarrels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def apart(pid: int) -> Iterator[None]:
    """Keeps the process ``pid`` to one core, and this one with all it starts to another.

    Raises ``AssertionError`` where there is only one.
    """
    before = os.sched_getaffinity(0)
    assert len(before) > 1, "two cores are needed: one for the gateway, one for its callers"
    first, second, *_ = sorted(before)
    _keep(pid, {first})
    _keep(os.getpid(), {second})
    try:
        yield
    finally:
        _keep(os.getpid(), before)


def _keep(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
