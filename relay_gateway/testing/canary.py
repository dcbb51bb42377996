"""Canaries: fake secrets that are unique to a test, and the search for where they leaked to."""

from __future__ import annotations

import base64
import gzip
import json
import secrets
import shutil
import sqlite3
import string
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

ALPHABET = string.ascii_letters + string.digits
LENGTH = 40
FRAGMENT = 8
SQLITE_MAGIC = b"SQLite format 3\x00"
GZIP_MAGIC = b"\x1f\x8b"

Texts = Mapping[str, str | bytes] | Sequence[str | bytes]


@dataclass(frozen=True, slots=True)
class Hit:
    """A canary was found. ``form`` says how it was written, ``place`` and ``offset`` where.

    It never holds the secret itself, so that a failing test does not leak it once more.
    """

    canary: str
    form: str
    place: str
    offset: int


class Canary:
    """Hands out fake secrets by name and knows all of them."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}
        self._forms: dict[str, dict[str, bytes]] = {}

    def secret(self, name: str, *, prefix: str = "") -> str:
        """The secret of this name, made on first use: ``prefix`` and 40 random characters."""
        if name not in self._secrets:
            value = prefix + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            self.adopt(name, value, public=len(prefix))
        return self._secrets[name]

    def adopt(self, name: str, value: str, *, public: int = 0) -> str:
        """Looks for a secret made elsewhere too; its first ``public`` characters may be shown.

        Raises ``ValueError`` when too little is left to be recognised by.
        """
        if len(value) - public < 2 * FRAGMENT:
            raise ValueError(f"canary {name!r}: fewer than {2 * FRAGMENT} secret characters")
        self._secrets[name] = value
        self._forms[name] = _forms(value, public)
        return value

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all secrets, in order of creation."""
        return tuple(self._secrets)

    def find(self, data: bytes, place: str, *, allowed: Iterable[str] = ()) -> list[Hit]:
        """Where each form of each secret that is not ``allowed`` first occurs in ``data``."""
        hits = []
        for name in self._secrets.keys() - set(allowed):
            for form, needle in self._forms[name].items():
                offset = data.find(needle)
                if offset >= 0:
                    hits.append(Hit(name, form, place, offset))
        return hits


def sweep(
    canary: Canary,
    *,
    paths: Iterable[Path] = (),
    texts: Texts = (),
    allowed: Iterable[str] = (),
) -> list[Hit]:
    """Every place where a secret of ``canary`` can be read, whole or in part, however encoded.

    ``paths`` are files and directories (searched recursively; also inside SQLite databases and
    gzip), ``texts`` what was captured: output, responses, dumps, best given with names. ``allowed``
    names secrets that may be there. Raises ``FileNotFoundError`` for a path that does not exist: a
    sweep of nothing would find nothing.
    """
    exceptions = frozenset(allowed)
    hits = []
    for place, data in _named(texts):
        hits += canary.find(data, place, allowed=exceptions)
    for path in paths:
        for file in _files(path):
            for place, data in _contents(file):
                hits += canary.find(data, place, allowed=exceptions)
    return hits


def assert_absent(
    canary: Canary,
    *,
    paths: Iterable[Path] = (),
    texts: Texts = (),
    allowed: Iterable[str] = (),
) -> None:
    """Fails the test with a list of places when :func:`sweep` finds anything."""
    hits = sweep(canary, paths=paths, texts=texts, allowed=allowed)
    lines = [f"{hit.canary} ({hit.form}) in {hit.place} at byte {hit.offset}" for hit in hits]
    if lines:
        raise AssertionError("secrets leaked:\n" + "\n".join(lines))


def _forms(value: str, public: int) -> dict[str, bytes]:
    raw = value.encode()
    secret_part = value[public:]
    forms = {
        "plain": raw,
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "url-encoded": quote(value, safe="").encode(),
        "json": json.dumps(value)[1:-1].encode(),
        f"first {FRAGMENT}": secret_part[:FRAGMENT].encode(),
        f"last {FRAGMENT}": secret_part[-FRAGMENT:].encode(),
    }
    for shift in range(3):
        standard = _base64_core(raw, shift)
        forms[f"base64+{shift}"] = standard
        forms[f"base64url+{shift}"] = standard.translate(bytes.maketrans(b"+/", b"-_"))
    distinct: dict[bytes, str] = {}
    for form, needle in forms.items():
        distinct.setdefault(needle, form)
    return {form: needle for needle, form in distinct.items()}


def _base64_core(raw: bytes, shift: int) -> bytes:
    # Encoded inside a longer text ("user:secret"), a secret begins at any of three bit positions;
    # the characters at both ends depend on its neighbours and are left out.
    encoded = base64.b64encode(bytes(shift) + raw)
    start = (0, 2, 3)[shift]
    whole = (shift + len(raw)) // 3 * 4
    return encoded[start:whole]


def _named(texts: Texts) -> Iterator[tuple[str, bytes]]:
    if isinstance(texts, (str, bytes)):
        raise TypeError("texts is a sequence or mapping of texts, not one text")
    items = texts.items() if isinstance(texts, Mapping) else enumerate(texts)
    for name, text in items:
        place = name if isinstance(name, str) else f"text {name}"
        yield place, text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in sorted(path.rglob("*")) if file.is_file())
    elif path.exists():
        yield path
    else:
        raise FileNotFoundError(f"nothing to sweep at {path}")


def _contents(file: Path) -> Iterator[tuple[str, bytes]]:
    data = file.read_bytes()
    yield str(file), data
    if data.startswith(GZIP_MAGIC):
        yield f"{file} (decompressed)", _decompressed(data)
    if data.startswith(SQLITE_MAGIC):
        yield f"{file} (rows)", _rows(file)


def _decompressed(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        # A file that is still being written: whatever can be read of it.
        return zlib.decompressobj(wbits=31).decompress(data)


def _rows(file: Path) -> bytes:
    # Long values are spread over pages, so the bytes of the file alone do not show them. A copy is
    # read, because opening the database itself could disturb whoever uses it.
    with tempfile.TemporaryDirectory() as scratch:
        for suffix in ("", "-wal"):
            source = file.with_name(file.name + suffix)
            if source.exists():
                shutil.copyfile(source, Path(scratch) / f"copy{suffix}")
        with closing(sqlite3.connect(Path(scratch) / "copy")) as database:
            return "\n".join(database.iterdump()).encode("utf-8", "surrogateescape")
