"""How many files the process may have open, and so how many connections."""

from __future__ import annotations

import resource

RESERVED = 64
"""Files that connections must leave over: databases, logs, the control plane."""
MOST = 1 << 20


def room_for_connections() -> int:
    """How many connections of callers there are files for, when each has one to an upstream.

    Raises the soft limit of the process to its hard limit first: the soft one is kept low for
    programs that use ``select``, and this one does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    files = MOST if soft == resource.RLIM_INFINITY else soft
    return max(1, (files - RESERVED) // 2)
