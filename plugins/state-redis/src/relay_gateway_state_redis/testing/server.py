"""A real Redis or Valkey server for tests: it can be killed, frozen and restarted empty."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Self

PROGRAMS = ("redis-server", "valkey-server")
START_SECONDS = 20.0
STOP_SECONDS = 10.0
ANSWER_SECONDS = 10.0
SETTINGS = """
bind 127.0.0.1
dir {directory}
save ""
appendonly no
daemonize no
repl-diskless-sync-delay 0
"""

Reply = bytes | int | list["Reply"] | None


class RedisMissingError(RuntimeError):
    """This machine has no server program."""


class RedisFailedError(RuntimeError):
    """The server did not start, or answered with an error; the message has what it said."""


@dataclass(frozen=True, slots=True)
class Protection:
    """What a server asks of its clients. ``certificate`` is one PEM file with key, certificate and
    authority; ``users`` are lines of ``user`` as the configuration has them."""

    password: str = ""
    certificate: Path | None = None
    users: tuple[str, ...] = ()


OPEN = Protection()


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def server_programs() -> Sequence[str]:
    """The programs that are installed here. Raises :class:`RedisMissingError` for none: a test that
    needs one fails, it is never skipped."""
    found = [name for name in PROGRAMS if shutil.which(name)]
    if not found:
        raise RedisMissingError(
            f"these tests need Redis or Valkey, and neither of {', '.join(PROGRAMS)} is on the "
            "PATH: install the package 'redis-server' or 'valkey-server' of the system"
        )
    return found


class RedisServer:
    """One server on a loopback port, which keeps nothing on disk. Use as a context manager.

    ``settings`` are further lines of its configuration. Nothing here needs an event loop, so sync
    fixtures and async tests can both use it.
    """

    def __init__(
        self,
        protection: Protection = OPEN,
        *,
        settings: Sequence[str] = (),
        program: str | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.protection = protection
        self.port = 0
        self._program = program
        self._settings = settings
        self._arguments = arguments
        self._directory = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Address without any credential."""
        scheme = "redis" if self.protection.certificate is None else "rediss"
        return f"{scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Writes a configuration and starts the server on a free port."""
        self._program = self._program or server_programs()[0]
        self._directory = Path(tempfile.mkdtemp(prefix="relay-redis-"))
        self.port = free_port()
        lines = [SETTINGS.format(directory=self._directory), *self._listening(), *self._settings]
        if self.protection.password:
            lines += [f"requirepass {self.protection.password}"]
            lines += [f"masterauth {self.protection.password}"]
        lines += [f"user {user}" for user in self.protection.users]
        (self._directory / "redis.conf").write_text("\n".join(lines) + "\n")
        try:
            self.restart()
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def restart(self) -> None:
        """Starts it again on the same port, empty, killing it first where it runs."""
        self.kill()
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a program that was looked for
                [str(self._program), str(self._directory / "redis.conf"), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                start_new_session=True,
            )
        self._wait_for_it()

    def kill(self) -> None:
        """``SIGKILL``, as a crash would; returns when it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """``SIGSTOP``: connections are accepted by the kernel, and nothing is ever answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on after :meth:`freeze`."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends it and deletes its files."""
        try:
            self.kill()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def command(self, *words: str | int) -> Reply:
        """The answer to one command, over a connection of its own. Raises
        :class:`RedisFailedError` for an error."""
        with self._connected() as stream:
            if self.protection.password and words[0] != "AUTH":
                _ask(stream, "AUTH", self.protection.password)
            return _ask(stream, *words)

    def _connected(self) -> _Stream:
        connection = socket.create_connection(("127.0.0.1", self.port), ANSWER_SECONDS)
        if self.protection.certificate is None:
            return _Stream(connection)
        try:
            return _Stream(self._tls.wrap_socket(connection, server_hostname="127.0.0.1"))
        except BaseException:
            connection.close()
            raise

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.protection.certificate)
        return context

    def _listening(self) -> list[str]:
        file = self.protection.certificate
        if file is None:
            return [f"port {self.port}"]
        return [
            f"port 0\ntls-port {self.port}\ntls-auth-clients no",
            f"tls-cert-file {file}\ntls-key-file {file}\ntls-ca-cert-file {file}",
        ]

    def _wait_for_it(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        reason = "no time"
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                self.command("PING")
            except (OSError, RedisFailedError) as error:
                reason = str(error)
                time.sleep(0.01)
            else:
                return
        self.kill()
        log = (self._directory / "log").read_text(errors="replace")[-2000:]
        raise RedisFailedError(f"{self._program} did not start ({reason}):\n{log}")

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(number)


class _Stream:
    """A connection and what is read from it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.reader: BinaryIO = connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.reader.close()
        self._connection.close()

    def send(self, data: bytes) -> None:
        """Writes all of ``data``."""
        self._connection.sendall(data)


def _ask(stream: _Stream, *words: str | int) -> Reply:
    encoded = [str(word).encode() for word in words]
    pieces = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(one), one) for one in encoded)]
    stream.send(b"".join(pieces))
    return _reply(stream.reader)


def _reply(reader: BinaryIO) -> Reply:
    line = reader.readline()
    if not line.endswith(b"\r\n"):
        raise RedisFailedError("the server closed the connection")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise RedisFailedError(rest.decode(errors="replace"))
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else reader.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return None if rest == b"-1" else [_reply(reader) for _ in range(int(rest))]
    return rest
