"""Keeps what is in the memory of this process there: no core dumps, no other readers, and no
credentials left over in its environment.

What Python cannot do is to keep memory from being swapped out, or to wipe a value after its use:
strings are copied by the interpreter as it likes. Use encrypted swap, or none.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterable
from typing import Any, Final

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4


def harden_process() -> bool:
    """Turns core dumps off, and lets no other process of the same user read the memory and the
    environment of this one; its children begin so, too. Whether all of that could be done."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    return bool(libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0)


def withdraw(names: Iterable[str]) -> None:
    """Removes variables from the environment of this process, for its children and for
    ``/proc/PID/environ``. Those that are not there are passed over."""
    present = [name for name in names if name in os.environ]
    if present:
        _overwrite({os.fsencode(name) for name in present})
    for name in present:
        os.environ.pop(name, None)


def _overwrite(names: set[bytes]) -> None:
    """Zeroes the values where they lie: removing a variable alone leaves it where the process got
    it."""
    try:
        entries: Any = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    except ValueError:
        return  # a system that keeps it elsewhere
    index = 0
    while entries[index]:
        name, equals, value = ctypes.string_at(entries[index]).partition(b"=")
        if equals and name in names:
            ctypes.memset(entries[index] + len(name) + 1, 0, len(value))
        index += 1
