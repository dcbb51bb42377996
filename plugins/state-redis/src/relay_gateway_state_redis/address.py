"""Addresses of one Redis, of sentinels, of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from relay_gateway.plugin import Secret

Topology = Literal["single", "sentinel", "cluster"]
SCHEMES = (
    "redis",
    "rediss",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "valkey",
    "valkeys",
)
USUAL_PORT, SENTINEL_PORT = 6379, 26379
FORMS = (
    "must be redis://HOST:PORT/DB, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE or "
    "redis+cluster://HOST:PORT,HOST:PORT, with rediss instead of redis for TLS"
)


@dataclass(frozen=True, slots=True)
class Node:
    """A host name or address and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """What a URL says. ``service`` is what sentinels call the master, else empty."""

    topology: Topology
    tls: bool
    nodes: tuple[Node, ...]
    service: str = ""
    database: int = 0
    username: str | None = None
    password: Secret | None = field(default=None)

    @property
    def place(self) -> str:
        """What messages call it; without any credential."""
        nodes = ", ".join(f"{node.host}:{node.port}" for node in self.nodes)
        return f"{self.service} of {nodes}" if self.service else nodes


def parse_address(url: str) -> Address:
    """Raises :class:`ValueError`, which quotes nothing of ``url``: it may hold a password."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in SCHEMES or "?" in rest or "#" in rest:
        raise ValueError(FORMS)
    kind, _, suffix = scheme.lower().partition("+")
    topology: Topology = "single"
    if suffix in ("sentinel", "cluster"):
        topology = "sentinel" if suffix == "sentinel" else "cluster"
    location, _, path = rest.partition("/")
    credentials, _, hosts = location.rpartition("@")
    username, _, password = credentials.partition(":")
    service, database = _of_path(path, topology)
    usual = SENTINEL_PORT if topology == "sentinel" else USUAL_PORT
    nodes = tuple(_node(host, usual) for host in hosts.split(","))
    if topology == "single" and len(nodes) > 1:
        raise ValueError("names several hosts: use redis+sentinel:// or redis+cluster://")
    return Address(
        topology=topology,
        tls=kind in ("rediss", "valkeys"),
        nodes=nodes,
        service=service,
        database=database,
        username=unquote(username) or None,
        password=Secret(unquote(password)) if password else None,
    )


def _of_path(path: str, topology: Topology) -> tuple[str, int]:
    """The service and the number of the database."""
    parts = path.split("/") if path else []
    service = ""
    if topology == "sentinel":
        service = unquote(parts.pop(0)) if parts else ""
        if not service:
            raise ValueError("redis+sentinel:// needs the name of the service: …HOST:PORT/SERVICE")
    if not parts or parts == [""]:
        return service, 0
    if topology == "cluster" or len(parts) > 1 or not (parts[0].isascii() and parts[0].isdigit()):
        raise ValueError(FORMS)
    return service, int(parts[0])


def _node(text: str, usual: int) -> Node:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ValueError(FORMS)
    return Node(host, usual if port is None else port)
