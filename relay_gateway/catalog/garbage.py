"""Keeping the garbage collector away from large things that are made to stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made inside is not looked through by the garbage collector, now or ever.

    It would go through a growing catalog again and again, and hold up every other thread each
    time. What lives inside may last a second or two; nothing there may leave cycles behind.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
