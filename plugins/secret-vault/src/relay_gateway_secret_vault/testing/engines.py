"""Secrets engines: KV 1, KV 2, and one that leases what it makes up."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any, Protocol

from relay_gateway_secret_vault.testing.answers import (
    Document,
    VaultAnswerError,
    envelope,
    not_found,
)

DEFAULT_LEASE = 2_764_800


class Engine(Protocol):
    """What is mounted somewhere."""

    kind: str
    options: Document | None

    def handle(self, method: str, path: str, query: Document, body: Document) -> Document | None:
        """The answer to a request below the mount; ``None`` is 204."""


class KvOne:
    """KV without versions. A secret's ``ttl`` is told as its lease."""

    kind = "kv"

    def __init__(self) -> None:
        self.options: Document | None = {"version": "1"}
        self._secrets: dict[str, Document] = {}

    def handle(self, method: str, path: str, query: Document, body: Document) -> Document | None:
        """Reads, writes and deletes."""
        if method in ("POST", "PUT"):
            self._secrets[path] = body
            return None
        if method == "DELETE":
            self._secrets.pop(path, None)
            return None
        if path not in self._secrets:
            raise not_found()
        values = self._secrets[path]
        lease = int(str(values.get("ttl", DEFAULT_LEASE)).removesuffix("s"))
        return envelope(values, lease_duration=lease)


class KvTwo:
    """KV with versions."""

    kind = "kv"

    def __init__(self) -> None:
        self.options: Document | None = {"version": "2"}
        self._secrets: dict[str, list[Document]] = {}

    def handle(self, method: str, path: str, query: Document, body: Document) -> Document | None:
        """What is below ``data/`` and ``metadata/``."""
        part, _, name = path.partition("/")
        if part == "metadata" and method == "DELETE":
            self._secrets.pop(name, None)
            return None
        if path == "config":
            return envelope({"cas_required": False, "max_versions": 0})
        if part != "data":
            raise VaultAnswerError(404)
        if method in ("POST", "PUT"):
            return self._write(name, body)
        if method == "DELETE":
            for kept in self._secrets.get(name, ())[-1:]:
                kept["metadata"]["deletion_time"] = _now()
            return None
        return self._read(name, int(query.get("version", ["0"])[0]))

    def _write(self, name: str, body: Document) -> Document:
        versions = self._secrets.setdefault(name, [])
        metadata = {
            "created_time": _now(),
            "custom_metadata": None,
            "deletion_time": "",
            "destroyed": False,
            "version": len(versions) + 1,
        }
        versions.append({"data": body.get("data") or {}, "metadata": metadata})
        return envelope(metadata)

    def _read(self, name: str, version: int) -> Document:
        versions = self._secrets.get(name, [])
        if not 0 <= version <= len(versions) or not versions:
            raise not_found()
        kept = versions[version - 1]
        if kept["metadata"]["deletion_time"]:
            raise VaultAnswerError(404, data={"data": None, "metadata": kept["metadata"]})
        return envelope(kept)


class Dynamic:
    """Gives out another value at each read, under a lease."""

    kind = "acme"

    def __init__(self, lease: int) -> None:
        self.options: Document | None = None
        self._lease = lease
        self._numbers = itertools.count(1)

    def handle(self, method: str, path: str, query: Document, body: Document) -> Document | None:
        """Any read makes a value up."""
        value = f"leased-value-{next(self._numbers)}"
        return envelope({"api_key": value}, lease_id=f"acme/{value}", lease_duration=self._lease)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def make_engine(wanted: Document) -> Engine:
    """The engine that ``sys/mounts`` was asked to mount."""
    options: dict[str, Any] = wanted.get("options") or {}
    if wanted.get("type") != "kv":
        return Dynamic(lease=int(options.get("lease", 60)))
    return KvTwo() if options.get("version") == "2" else KvOne()
