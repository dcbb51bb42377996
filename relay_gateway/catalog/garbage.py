"""Keeping the garbage collector away from large things that are made to stay."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MANY = 1000
"""So many entities are worth keeping the garbage collector away."""


@contextmanager
def uncollected(stays: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """What is made inside is not looked through by the garbage collector now and, when ``stays``
    says so at the end, ever.

    It would go through a growing catalog again and again, and hold up every other thread each
    time. What lives inside may last some seconds; nothing that stays may be part of a cycle.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if stays():
            gc.freeze()
        gc.enable()
