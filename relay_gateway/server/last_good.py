"""The last good catalog on disk, so that a start does not need the database.

``last-good`` has what a snapshot is built from: rows as JSON, one per line, with hashes of relay
keys and ciphertext of credentials in them and nothing plainer. Its first line authenticates the
rest with a key that is derived from the master key. ``last-good-confirmed`` says when that was last
known to be what the database has, and is bound to it by the same key.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from relay_gateway.catalog.build import SavedRows
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import RelayError
from relay_gateway.secret import Secret
from relay_gateway.security.master_key import derived_key

FILE = "last-good"
CONFIRMED_FILE = "last-good-confirmed"
FORMAT = 1
PURPOSE = b"relay-gateway: last good catalog, version 1"
PAUSE_SECONDS = 1.0
"""At most one write in this time."""
SHARE = 10.0
"""Writing takes at most one part in so many of the time."""
CONFIRM_SECONDS = 5.0
MAC_BYTES = 64
_PORTION = 500

_log = logging.getLogger(__name__)


class LastGoodError(RelayError):
    """The file on disk cannot be used; the message says why."""


class _Head(msgspec.Struct, frozen=True):
    format: int
    revision: int
    saved_at: float
    digest: str
    settings: dict[str, Any]


class SavedCatalog(msgspec.Struct, frozen=True):
    """A catalog as it was on disk. ``confirmed_at`` is in seconds since the epoch."""

    revision: int
    rows: Iterable[EntityRow]
    """To be read once."""
    settings: Mapping[str, Mapping[str, Any]]
    confirmed_at: float


class LastGoodFile:
    """Reads and writes the files. Not thread-safe; several processes may do so at once."""

    def __init__(self, directory: Path, master_keys: Sequence[Secret]) -> None:
        self._path = directory / FILE
        self._confirmed = directory / CONFIRMED_FILE
        self._keys = [derived_key(key, PURPOSE) for key in master_keys]

    @property
    def possible(self) -> bool:
        """Whether there is a master key to authenticate it with."""
        return bool(self._keys)

    @property
    def exists(self) -> bool:
        """Whether there is anything to read; it may still be of no use."""
        return self.possible and self._path.exists()

    def read(self) -> SavedCatalog | None:
        """What is on disk; ``None`` when there is nothing. Raises :class:`LastGoodError`."""
        content = _content(self._path)
        if content is None or not self._keys:
            return None
        # A catalog may be large: its bytes are in memory once, and its rows one by one.
        mac = content[: content.index(b"\n")] if b"\n" in content[: MAC_BYTES + 1] else content
        body = memoryview(content)[len(mac) + 1 :]
        if not any(hmac.compare_digest(mac, _mac(key, body)) for key in self._keys):
            raise LastGoodError(
                f"{self._path} was not written with this master key, or was changed; it is not used"
            )
        lines = _lines(content, len(mac) + 1)
        head = msgspec.json.decode(next(lines), type=_Head)
        if head.format != FORMAT:
            raise LastGoodError(f"{self._path} is of another version of the gateway")
        rows = map(msgspec.json.Decoder(EntityRow).decode, lines)
        confirmed_at = max(head.saved_at, self._confirmed_at(mac))
        return SavedCatalog(head.revision, rows, head.settings, confirmed_at)

    def write(self, saved: SavedRows, at: float) -> None:
        """Replaces the file whole, unless another process has written exactly this."""
        digest = hashlib.sha256()
        for portion in _joined(saved.rows):
            digest.update(portion)
        head = _Head(FORMAT, saved.revision, at, digest.hexdigest(), dict(saved.settings))
        if self._has(head) and self._signed_now():
            self.confirm(at)
            return
        encoded = msgspec.json.encode(head)
        signer = hmac.new(self._keys[0], encoded + b"\n", hashlib.sha256)
        for portion in _joined(saved.rows):
            signer.update(portion)
        mac = signer.hexdigest().encode()
        _replace(self._path, chain((mac, b"\n", encoded, b"\n"), _joined(saved.rows)), sync=True)

    def confirm(self, at: float) -> None:
        """Notes that what is on disk was at ``at`` what the database has."""
        mac = _first_line(self._path)
        if mac:
            time_text = repr(at).encode()
            signed = _mac(self._keys[0], mac + b" " + time_text)
            _replace(self._confirmed, (time_text, b"\n", signed, b"\n"), sync=False)

    def _has(self, head: _Head) -> bool:
        try:
            with self._path.open("rb") as file:
                file.readline()
                there = msgspec.json.decode(file.readline(), type=_Head)
        except (FileNotFoundError, msgspec.DecodeError):
            return False
        return msgspec.structs.replace(there, saved_at=head.saved_at) == head

    def _signed_now(self) -> bool:
        """Whether the file is signed with the current key, and not with one that may be dropped."""
        mac, _, body = (_content(self._path) or b"").partition(b"\n")
        return hmac.compare_digest(mac, _mac(self._keys[0], body))

    def _confirmed_at(self, mac: bytes) -> float:
        content = _content(self._confirmed)
        if content is None:
            return 0.0
        time_text, _, signed = content.rstrip().partition(b"\n")
        if not any(
            hmac.compare_digest(signed, _mac(key, mac + b" " + time_text)) for key in self._keys
        ):
            return 0.0
        return float(time_text)


class LastGoodKeeper:
    """Keeps the files up to date, off the loop and never in a hurry."""

    def __init__(self, file: LastGoodFile, content: Callable[[], SavedRows]) -> None:
        self._file = file
        self._content = content
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._saved = False
        self._confirmed_at = 0.0
        self._on_disk_at = 0.0
        self._writing = Lock()

    def start(self) -> None:
        """Begins to write; without a master key it says so and never will."""
        if not self._file.possible:
            _log.warning(
                "no last good catalog is kept on disk, because there is no master key to "
                "authenticate it with: without the database this instance cannot start"
            )
            return
        self._running = asyncio.get_running_loop().create_task(self._run())

    def changed(self) -> None:
        """There is a new snapshot."""
        self._saved = False
        self._changed.set()

    def confirmed(self, at: float) -> None:
        """The last snapshot is what the database has."""
        self._confirmed_at = at
        if at - self._on_disk_at >= CONFIRM_SECONDS:
            self._changed.set()

    async def aclose(self) -> None:
        """Writes what is not written yet."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await asyncio.to_thread(self._write)

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = time.monotonic()
            await asyncio.to_thread(self._write)
            took = time.monotonic() - began
            await asyncio.sleep(max(PAUSE_SECONDS, SHARE * took))

    def _write(self) -> None:
        # A thread goes on when its task is cancelled, and the last write comes after that.
        with self._writing:
            self._write_what_is_due(self._confirmed_at)

    def _write_what_is_due(self, at: float) -> None:
        try:
            if not self._saved:
                self._saved = True
                self._file.write(self._content(), at)
            elif at - self._on_disk_at >= CONFIRM_SECONDS:
                self._file.confirm(at)
            self._on_disk_at = at
        except OSError as error:
            self._saved = False
            _log.warning("the last good catalog cannot be written: %s", error.strerror)


def _joined(rows: Sequence[bytes]) -> Iterator[bytes]:
    """``rows`` as lines, in portions that no other thread has to wait for."""
    for start in range(0, len(rows), _PORTION):
        yield b"".join(row + b"\n" for row in rows[start : start + _PORTION])


def _lines(content: bytes, start: int) -> Iterator[bytes]:
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        yield content[start:end]
        start = end + 1


def _mac(key: bytes, content: bytes | memoryview) -> bytes:
    return hmac.new(key, content, hashlib.sha256).hexdigest().encode()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LastGoodError(f"{path} cannot be read: {error.strerror}") from error


def _first_line(path: Path) -> bytes:
    with suppress(FileNotFoundError), path.open("rb") as file:
        return file.readline(100).rstrip()
    return b""


def _replace(path: Path, content: Iterable[bytes], *, sync: bool) -> None:
    """Writes a file that only its owner can read, whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if sync:
        _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
