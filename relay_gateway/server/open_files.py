"""How many files the process may have open, and so how many connections."""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import suppress
from typing import Final

RESERVED: Final = 64
"""Files that connections must leave over: databases, logs, the control plane."""
MOST: Final = 1 << 20
PREPARED: Final = 1 << 14
"""Files that the kernel's table of a process has room for from the start, which takes 128 KiB."""


def room_for_connections() -> int:
    """How many connections of callers there are files for, when each has one to an upstream.

    Raises the soft limit of the process to its hard limit first: the soft one is kept low for
    programs that use ``select``, and this one does not.
    """
    return max(1, (_raised_limit() - RESERVED) // 2)


def prepare_table() -> None:
    """Has the kernel make room for many open files; best called while there is one thread.

    A table that is full is doubled. Once there are threads the kernel waits meanwhile until no
    processor looks at the old one: 5 to 20 ms in which a loop that accepts a connection does
    nothing else, at 64 open files, at 128, and so on. So it is done once, at the start, where it
    takes 0.2 ms with one thread, and as long as that where a child was forked with the log's.
    """
    last = min(_raised_limit(), PREPARED) - 1
    with suppress(OSError):  # then it grows later
        any_file = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.close(fcntl.fcntl(any_file, fcntl.F_DUPFD_CLOEXEC, last))
        finally:
            os.close(any_file)


def _raised_limit() -> int:
    """How many files may be open, once the soft limit is as high as the hard one lets it be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else soft
