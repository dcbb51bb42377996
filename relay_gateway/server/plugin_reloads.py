"""Plugins reloaded in every process of a gateway, first in the one that is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from relay_gateway.control.services import ProcessReload, ReloadedPlugin
from relay_gateway.errors import RelayError
from relay_gateway.registry import PluginChange
from relay_gateway.server.gathering import ALONE, CONTROL, worker_name
from relay_gateway.server.letterbox import Letterbox
from relay_gateway.server.plugin_reload import PluginReload
from relay_gateway.server.questions import ReloadPlugins, encoded

ANSWER_SECONDS: Final = 60.0
"""How long a worker may take: each new plugin has some seconds to open."""


class PluginReloads:
    """Reloads ``own`` and then ``workers``, where there are any."""

    def __init__(self, own: PluginReload, workers: Sequence[Letterbox] = ()) -> None:
        self._own = own
        self._workers = [(worker_name(n), box) for n, box in enumerate(workers, start=1)]

    async def everywhere(self) -> list[ProcessReload]:
        """What has changed in each process. Raises :class:`RelayError` for a configuration that is
        not valid; no process has changed anything then."""
        name = CONTROL if self._workers else ALONE
        own = ProcessReload(process=name, changes=shown(await self._own.reload()))
        others = await asyncio.gather(*(_reload(*worker) for worker in self._workers))
        return [own, *others]


async def answered(reload: PluginReload) -> bytes:
    """What a worker answers."""
    try:
        answer = ProcessReload(process="", changes=shown(await reload.reload()))
    except RelayError as error:
        answer = ProcessReload(process="", changes=[], error=str(error))
    return msgspec.msgpack.encode(answer)


def shown(changes: Sequence[PluginChange]) -> list[ReloadedPlugin]:
    """Changes as they are answered."""
    return [
        ReloadedPlugin(
            kind=str(change.kind), name=change.name, change=str(change.change), error=change.error
        )
        for change in changes
    ]


async def _reload(name: str, box: Letterbox) -> ProcessReload:
    try:
        answer = await box.ask(ANSWER_SECONDS, encoded(ReloadPlugins()))
        found = msgspec.msgpack.decode(answer, type=ProcessReload)
    except (OSError, TimeoutError, msgspec.DecodeError):
        return ProcessReload(process=name, changes=[], error="it did not answer")
    return msgspec.structs.replace(found, process=name)
