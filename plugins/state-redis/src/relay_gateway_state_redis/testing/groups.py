"""Several Redis servers for tests: a cluster, and a master with a replica and sentinels."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Self

from relay_gateway_state_redis.testing.server import (
    OPEN,
    Protection,
    RedisFailedError,
    RedisServer,
    free_port,
)

SLOTS = 16384
PATIENCE = 20.0
SERVICE = "limits"
NODE_TIMEOUT = 600
"""Milliseconds after which the others take a node for dead."""


class RedisCluster:
    """Three masters and, where ``replicas`` is set, a replica of each. A context manager."""

    def __init__(self, *, replicas: bool = False, program: str | None = None) -> None:
        self._replicas = replicas
        self._program = program
        self._stack = ExitStack()
        self.masters: list[RedisServer] = []
        self.replicas: list[RedisServer] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.masters = [stack.enter_context(self._node()) for _ in range(3)]
            if self._replicas:
                self.replicas = [stack.enter_context(self._node()) for _ in range(3)]
            self._join()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Address as the store takes it, with two of the nodes."""
        nodes = ",".join(f"127.0.0.1:{server.port}" for server in self.masters[:2])
        return f"redis+cluster://{nodes}"

    def owner(self, key: str) -> RedisServer:
        """The master that keeps ``key``."""
        slot = self.masters[0].command("CLUSTER", "KEYSLOT", key)
        assert isinstance(slot, int)
        return self.masters[min(slot * 3 // SLOTS, 2)]

    def _node(self) -> RedisServer:
        return RedisServer(
            program=self._program,
            settings=[
                "cluster-enabled yes",
                f"cluster-port {free_port()}",
                f"cluster-node-timeout {NODE_TIMEOUT}",
                "cluster-replica-validity-factor 0",
            ],
        )

    def _join(self) -> None:
        everyone = [*self.masters, *self.replicas]
        for number, server in enumerate(everyone, 1):
            server.command("CLUSTER", "SET-CONFIG-EPOCH", number)
        for number, server in enumerate(self.masters):
            # Rounded up, as ``owner`` divides.
            first, after = -(-number * SLOTS // 3), -(-(number + 1) * SLOTS // 3)
            server.command("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
        for server in everyone[1:]:
            server.command("CLUSTER", "MEET", "127.0.0.1", everyone[0].port, _bus_of(everyone[0]))
        _until(lambda: all(_knows(server, len(everyone)) for server in everyone), "a cluster")
        for master, replica in zip(self.masters, self.replicas, strict=False):
            name = master.command("CLUSTER", "MYID")
            assert isinstance(name, bytes)
            replica.command("CLUSTER", "REPLICATE", name.decode())
        _until(lambda: all(_follows(one) for one in self.replicas), "replicas that follow")


class RedisSentinel:
    """A master, a replica, and three sentinels that watch them. A context manager."""

    def __init__(self, protection: Protection = OPEN, *, program: str | None = None) -> None:
        self._protection = protection
        self._program = program
        self._stack = ExitStack()
        self.servers: list[RedisServer] = []
        self.sentinels: list[RedisServer] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            master = stack.enter_context(RedisServer(self._protection, program=self._program))
            follow = f"replicaof 127.0.0.1 {master.port}"
            replica = RedisServer(self._protection, program=self._program, settings=[follow])
            self.servers = [master, stack.enter_context(replica)]
            _until(lambda: _follows(replica), "a replica that follows")
            self.sentinels = [stack.enter_context(self._sentinel(master.port)) for _ in range(3)]
            _until(self._watched, "sentinels that know each other")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """Address as the store takes it, with all sentinels."""
        nodes = ",".join(f"127.0.0.1:{server.port}" for server in self.sentinels)
        return f"redis+sentinel://{nodes}/{SERVICE}"

    @property
    def master_port(self) -> int:
        """What the first sentinel takes for the master."""
        answer = self.sentinels[0].command("SENTINEL", "get-master-addr-by-name", SERVICE)
        assert isinstance(answer, list)
        assert isinstance(answer[1], bytes)
        return int(answer[1])

    def wait_for_failover(self) -> None:
        """Waits until all sentinels, and the replica itself, take it for the master."""
        replica = self.servers[1]

        def done() -> bool:
            return self.master_port == replica.port and b"role:master" in _info(replica)

        _until(done, "another master")

    def _sentinel(self, port: int) -> RedisServer:
        lines = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {port} 2",
            f"sentinel down-after-milliseconds {SERVICE} 500",
            f"sentinel failover-timeout {SERVICE} 2000",
        ]
        if self._protection.password:
            lines.append(f"sentinel auth-pass {SERVICE} {self._protection.password}")
        return RedisServer(program=self._program, settings=lines, arguments=["--sentinel"])

    def _watched(self) -> bool:
        return all(_sees(one) for one in self.sentinels)


def _bus_of(server: RedisServer) -> str:
    answer = server.command("CONFIG", "GET", "cluster-port")
    assert isinstance(answer, list)
    assert isinstance(answer[1], bytes)
    return answer[1].decode()


def _knows(server: RedisServer, count: int) -> bool:
    info = server.command("CLUSTER", "INFO")
    assert isinstance(info, bytes)
    lines = info.split(b"\r\n")
    return b"cluster_state:ok" in lines and b"cluster_known_nodes:%d" % count in lines


def _follows(server: RedisServer) -> bool:
    return b"master_link_status:up" in _info(server)


def _info(server: RedisServer) -> bytes:
    with suppress(OSError, RedisFailedError):
        answer = server.command("INFO", "replication")
        assert isinstance(answer, bytes)
        return answer
    return b""


def _sees(sentinel: RedisServer) -> bool:
    """Whether it knows the replica and both other sentinels."""
    answer = sentinel.command("SENTINEL", "MASTER", SERVICE)
    assert isinstance(answer, list)
    words = [one for one in answer if isinstance(one, bytes)]
    facts = dict(zip(words[::2], words[1::2], strict=False))
    return (facts.get(b"num-slaves"), facts.get(b"num-other-sentinels")) == (b"1", b"2")


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise RedisFailedError(f"the servers did not become {what} within {PATIENCE:.0f} s")
        time.sleep(0.02)
