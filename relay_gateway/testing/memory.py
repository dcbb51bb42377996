"""How much memory another process holds, and held at most."""

from __future__ import annotations

import re
from pathlib import Path

MIB = 1024 * 1024


def resident_bytes(pid: int) -> int:
    """Resident memory of a process now."""
    return _status(pid, "VmRSS")


def peak_bytes(pid: int) -> int:
    """The most resident memory that a process had since :func:`forget_peak`."""
    return _status(pid, "VmHWM")


def forget_peak(pid: int) -> None:
    """Makes the present resident memory the most that there was."""
    (Path("/proc") / str(pid) / "clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    text = (Path("/proc") / str(pid) / "status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None, f"the kernel does not tell {name}"
    return int(found[1]) * 1024
