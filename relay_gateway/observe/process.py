"""What the operating system says about this process: memory, descriptors, time of the processor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from relay_gateway.observe.families import FAMILIES
from relay_gateway.observe.series import Series

if TYPE_CHECKING:
    from prometheus_client import ProcessCollector


def process_series() -> Iterator[Series]:
    """The figures of this process; none where there is no ``/proc``."""
    for metric in _collector().collect():
        for sample in metric.samples:
            if sample.name in FAMILIES:
                yield Series(sample.name, (), sample.value)


def birth_mark() -> str:
    """What no other process of this machine has, also none that gets the same id later."""
    return _birth_mark(os.getpid())


@lru_cache(maxsize=1)
def _collector() -> ProcessCollector:
    # Only a gateway that is scraped needs the library.
    from prometheus_client import ProcessCollector

    return ProcessCollector(registry=None)


@lru_cache(maxsize=1)
def _birth_mark(process_id: int) -> str:
    # Not at import, which children have from their parent.
    return f"{process_id}-{time.time_ns()}"
