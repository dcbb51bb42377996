"""The metrics of all processes of a gateway, put together in the one that is asked for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from relay_gateway import __version__
from relay_gateway.observe import families
from relay_gateway.observe.place import Place
from relay_gateway.observe.process import birth_mark
from relay_gateway.observe.series import Report, Series, series_of, summed
from relay_gateway.server.letterbox import Letterbox
from relay_gateway.server.questions import TellMetrics, encoded

ANSWER_SECONDS = 1.0
"""How long a scrape waits for workers, which are asked at the same time."""
ALONE = "gateway"
"""The name of a process that does everything."""
CONTROL = "control"

_log = logging.getLogger(__name__)


def worker_name(number: int) -> str:
    """The name of a worker; they are numbered from 1."""
    return f"worker-{number}"


class Gathering:
    """Collects the series of this process and of ``workers``. Those who ask at the same time share
    one collection."""

    def __init__(
        self,
        name: str,
        own: Callable[[], Sequence[Series]],
        workers: Sequence[Letterbox] = (),
    ) -> None:
        self._own = own
        self._place = Place(name)
        self._workers = [
            (Place(worker_name(number)), box) for number, box in enumerate(workers, start=1)
        ]
        self._running: asyncio.Task[list[Series]] | None = None

    async def collect(self) -> list[Series]:
        """All series, each once."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._collect())
            self._running.add_done_callback(self._collected)
        return await asyncio.shield(self._running)

    async def _collect(self) -> list[Series]:
        answers = await asyncio.gather(*(_report(place, box) for place, box in self._workers))
        series = [*self._place.series(report_of(self._own))]
        for (place, _), report in zip(self._workers, answers, strict=True):
            series += place.series(report)
        series.append(series_of(families.BUILD, 1, __version__))
        return summed(series)

    def _collected(self, task: asyncio.Task[list[Series]]) -> None:
        self._running = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have


def report_of(own: Callable[[], Sequence[Series]]) -> Report:
    """What this process has to say."""
    return Report(birth_mark(), tuple(summed(own())))


def encoded_report(own: Callable[[], Sequence[Series]]) -> bytes:
    """The same, as a worker sends it."""
    return msgspec.msgpack.encode(report_of(own))


async def _report(place: Place, box: Letterbox) -> Report | None:
    try:
        answer = await box.ask(ANSWER_SECONDS, encoded(TellMetrics()))
        return msgspec.msgpack.decode(answer, type=Report)
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        _log.debug("%s did not answer for its metrics: %s", place.name, type(error).__name__)
        return None
