"""Records that a sink refuses for good: kept in a file for people, so that those behind go on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from relay_gateway.delivery.disk import Disk


class SetAside:
    """One file of JSON lines per stream, each with the record, the sink and its reason."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    def path(self, kind: str) -> Path:
        """Where records of this kind of stream are put."""
        return self._root / f"set-aside-{kind}.jsonl"

    async def keep(self, kind: str, sink: str, record: Any, reason: str) -> None:
        """Adds a record. Raises :class:`OSError`; it then has to be kept by other means."""
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        line = {"at": at, "sink": sink, "reason": reason, "record": record}
        data = msgspec.json.encode(line) + b"\n"
        await asyncio.to_thread(self._disk.append_line, self.path(kind), data)
