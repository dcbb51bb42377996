"""Other people's servers in front of ours: nginx and HAProxy, as Debian packages them.

Each keeps its connections to us open and reuses them, gives every request that it passes on an id
in ``X-Front-Id``, and writes down what it passed on.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

FRONT_ID: Final = b"X-Front-Id"
_START_SECONDS = 10.0
_STOP_SECONDS = 10.0

_NGINX: Final = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  log_format passed '$request_id $upstream_bytes_sent';
  map $upstream_bytes_sent $was_passed {{ '' 0; '-' 0; '0' 0; default 1; }}
  access_log {directory}/passed.log passed if=$was_passed;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  client_header_timeout 2s;
  client_body_timeout 2s;
  upstream gateway {{ server 127.0.0.1:{behind}; keepalive 4; keepalive_timeout 60s; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    client_max_body_size 64m;
    location / {{
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_set_header X-Front-Id $request_id;
      proxy_next_upstream off;
    }}
  }}
}}
"""

_HAPROXY: Final = """\
global
  log stdout format raw local0
  maxconn 4000
  nbthread 1
defaults
  mode http
  log global
  log-format "%ID %s %[var(txn.body)]"
  option http-keep-alive
  http-reuse always
  retries 0
  timeout connect 2s
  timeout http-request 2s
  timeout http-keep-alive 10s
  timeout client 2s
  timeout server 20s
frontend callers
  bind 127.0.0.1:{port} backlog 1024
  unique-id-format %[uuid()]
  unique-id-header X-Front-Id
  {extra}
  default_backend gateway
backend gateway
  server gateway 127.0.0.1:{behind}
"""
_BUFFERING: Final = """\
option http-buffer-request
  http-request set-var(txn.body) req.body_len
"""


class FrontMissingError(Exception):
    """The program is not installed. The message says which package has it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A request that a front sent to us, by its id.

    ``size`` is how many bytes it was, head included, ``body`` how many its body had; ``None`` where
    the front does not say.
    """

    front_id: str
    size: int | None
    body: int | None


class Front(ABC):
    """A server that listens on ``port`` and passes requests on to ``behind``; a context manager.

    Raises :class:`FrontMissingError` where the program is not installed.
    """

    name: str
    program: str
    configuration: str
    extra = ""

    def __init__(self, behind: int, directory: Path) -> None:
        self.behind = behind
        self.port = free_port()
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = _program(self.program)
        settings = self.directory / "front.conf"
        settings.write_text(
            self.configuration.format(
                directory=self.directory, port=self.port, behind=self.behind, extra=self.extra
            )
        )
        with (self.directory / "output").open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [program, *self.arguments(settings)], stdout=output, stderr=output
            )
        self._wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the program, so that all it wrote down is there."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    @abstractmethod
    def arguments(self, settings: Path) -> list[str]:
        """The command line that runs it in the foreground."""

    @abstractmethod
    def passed(self) -> list[Passed]:
        """What it has sent to us so far; complete once it is stopped."""

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not accepts(self.port):
            dead = self._process is not None and self._process.poll() is not None
            if dead or time.monotonic() > deadline:
                output = (self.directory / "output").read_text(errors="replace")
                raise AssertionError(f"{self.name} did not start:\n{output}")
            time.sleep(0.01)


class Nginx(Front):
    """nginx as a reverse proxy, which reads a body to its end before it passes it on."""

    name = "nginx"
    program = "nginx"
    configuration = _NGINX

    def arguments(self, settings: Path) -> list[str]:
        log = str(self.directory / "error.log")
        return ["-p", str(self.directory), "-e", log, "-c", str(settings)]

    def passed(self) -> list[Passed]:
        lines = (self.directory / "passed.log").read_text().splitlines()
        return [Passed(name, int(size), None) for name, size in map(str.split, lines)]


class Haproxy(Front):
    """HAProxy as it is usually run: bodies are passed on while they come, and not counted."""

    name = "haproxy"
    program = "haproxy"
    configuration = _HAPROXY

    def arguments(self, settings: Path) -> list[str]:
        return ["-db", "-f", str(settings)]

    def passed(self) -> list[Passed]:
        lines = map(str.split, (self.directory / "output").read_text().splitlines())
        words = [line for line in lines if len(line) == 3 and line[1] == "gateway"]
        return [Passed(name, None, _count(body)) for name, _, body in words]


class BufferingHaproxy(Haproxy):
    """HAProxy that waits for the bodies of small requests, and counts them."""

    name = "haproxy with request buffering"
    extra = _BUFFERING


def _count(word: str) -> int | None:
    return int(word) if word.isdigit() else None


def free_port() -> int:
    """A loopback port that nobody listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    """Whether somebody listens on a loopback port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _program(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    if path is None:
        raise FrontMissingError(
            f"{name} is not installed, and these tests need it; on Debian: apt-get install {name}"
        )
    return path
