"""A watch over gateway processes: it learns every credential that they come to know, and looks for
all of them in everything that they leave behind."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import msgspec

from relay_gateway.testing.canary import FRAGMENT, Canary, Hit, sweep

VARIED: Final = 10
"""A value with fewer different characters is no credential, or nothing to be recognised by."""
SECRET_VARIABLE: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")
SECRET_MEMBERS: Final = ("value", "password", "plaintext", "token", "secret")
SECRET_HEADERS: Final = (
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
    "x-relay-api-key",
    "x-svc-api-key",
    "cookie",
)
SECRET_FILES: Final = ("admin-token", "master-key")
"""Files of the data directory that are there to hold a credential."""
_MINTED: Final = re.compile(r"sk-relay-[0-9A-Za-z]{40,}")
# What is shown of a relay key, or tells nothing of another credential.
_PUBLIC: Final = re.compile(r"sk-relay-[0-9A-Za-z]{7}|sk-(?:[a-z]{3,8}-)?|[a-z_]{2,12}=")


class Process(Protocol):
    """What is known of a gateway process: a :class:`.GatewayProcess`."""

    directory: Path
    command: str
    stdout: str
    stderr: str
    inference_url: str
    control_url: str

    @property
    def data_dir(self) -> Path:
        """Where the gateway keeps its files, below ``directory``."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that it was started with."""


@dataclass(slots=True)
class Answer:
    """An answer of a gateway. ``body`` grows as it comes."""

    place: str
    headers: httpx.Headers
    body: bytearray = field(default_factory=bytearray)

    def text(self) -> bytes:
        """Headers and decoded body. Cookies are learnt instead: they are meant for the caller."""
        shown = [f"{name}: {value}" for name, value in self.headers.items() if name != "set-cookie"]
        try:
            body = httpx.Response(200, headers=self.headers, content=bytes(self.body)).content
        except httpx.DecodingError:
            body = b""
        return "\n".join(shown).encode() + b"\n" + body + b"\n" + bytes(self.body)


@dataclass(slots=True)
class Watched:
    """A process, how many credentials were known before it, and what it said."""

    process: Process
    since: int
    answers: list[Answer] = field(default_factory=list)
    printed: list[tuple[str, str]] = field(default_factory=list)


class Watch:
    """Sweeps each process when it ends, for the credentials of its time.

    ``dump`` gives everything in the PostgreSQL database at an address as text. Credentials are
    random, so one that was made before the test in which a process began, or after its end, cannot
    be in what it left; :meth:`mark` says where a test begins.
    """

    def __init__(self) -> None:
        self.dump: Callable[[str], str] | None = None
        self.canary = Canary()
        self.hits: list[Hit] = []
        self.swept: Counter[str] = Counter()
        self.unknown: list[str] = []
        self._known: dict[str, str] = {}
        self._shown: set[str] = set()
        self._mark = 0
        self._running: dict[int, Watched] = {}

    def mark(self) -> None:
        """Processes from here on know nothing of what was learnt so far."""
        self._mark = len(self._known)

    def learn(self, value: str, kind: str) -> str | None:
        """Looks for ``value`` from now on; gives its name. ``None`` where it is too short, or too
        regular, to be told from other texts."""
        known = self._known.get(value)
        if known is not None:
            return known
        found = _PUBLIC.match(value)
        public = found.end() if found else 0
        secret = value[public:]
        if len(secret) < 2 * FRAGMENT or len(set(secret)) < VARIED or " " in secret:
            return None
        name = self._known[value] = f"{kind} {len(self._known) + 1}"
        self.canary.adopt(name, value, public=public)
        return name

    def begun(self, process: Process) -> None:
        """A process has started, or starts again."""
        if id(process) not in self._running:
            self._running[id(process)] = Watched(process, self._mark)
        for variable, value in process.environ.items():
            if SECRET_VARIABLE.search(variable):
                for part in value.split(","):
                    self._insist(part.strip(), variable)

    def printed(self, process: Process, place: str, text: str) -> None:
        """Another program has printed ``text`` about the process: a command, a client."""
        watched = self._running.get(id(process))
        if watched is not None:
            watched.printed.append((place, text))

    def asked(self, request: httpx.Request) -> Watched | None:
        """A request is on its way; the process that it is for, if it is one of these."""
        watched = self._of(request.url)
        if watched is None:
            return None
        for name in SECRET_HEADERS:
            value = request.headers.get(name, "")
            scheme, _, rest = value.partition(" ")
            self._learn_login(scheme.lower(), rest or value, name)
        if _origin(request.url) == watched.process.control_url:
            for value in _members(_read(request)):
                self.learn(value, "value in a request")
                self.learn(value.partition(":")[2], "password in a request")
        return watched

    def answered(
        self, watched: Watched, request: httpx.Request, response: httpx.Response
    ) -> Answer:
        """An answer begins; what is put into its ``body`` is swept in the end."""
        place = f"answer to {request.method} {request.url.path} ({response.status_code})"
        answer = Answer(place, response.headers)
        if response.is_success and _origin(request.url) == watched.process.control_url:
            for value in _members(_read(request)):
                self._insist(value, place)
        for cookie in response.headers.get_list("set-cookie"):
            self.learn(cookie.partition("=")[2].partition(";")[0], "cookie")
        watched.answers.append(answer)
        return answer

    def ended(self, process: Process) -> None:
        """A process has ended: looks into everything that it left."""
        watched = self._running.pop(id(process), None)
        if watched is None:
            return
        for name in SECRET_FILES:
            file = process.data_dir / name
            for value in file.read_text().split(",") if file.exists() else ():
                self.learn(value.strip(), name)
        self._sweep(watched)

    def judge(self) -> None:
        """Raises ``AssertionError`` when anything was found, or could not be looked for."""
        lines = [f"{one.canary} ({one.form}) in {one.place} at {one.offset}" for one in self.hits]
        if lines:
            raise AssertionError("secrets leaked:\n" + "\n".join(lines))
        if self._running:
            count = len(self._running)
            raise AssertionError(f"{count} gateways have not ended, and were not searched")
        if self.unknown:
            raise AssertionError(f"not to be recognised: {self.unknown}")

    def _insist(self, value: str, place: str) -> None:
        if value and self.learn(value, place) is None:
            self.unknown.append(f"the credential of {place}: make it of a canary")

    def _learn_login(self, scheme: str, value: str, header: str) -> None:
        self.learn(value, header)
        if scheme == "basic":
            try:
                login = base64.b64decode(value, validate=True).decode("utf-8", "replace")
            except binascii.Error:
                return
            self.learn(login.partition(":")[2], header)

    def _sweep(self, watched: Watched) -> None:
        process = watched.process
        earlier = set(list(self._known.values())[: watched.since])
        self.swept["processes"] += 1
        for answer in watched.answers:
            made = self._made_known(_members(_decoded(bytes(answer.body)), ("plaintext",)))
            self._look({answer.place: answer.text()}, earlier | made)
        for place, text in watched.printed:
            self._look({place: text}, earlier | self._made_known(_MINTED.findall(text)))
        keys = _MINTED.findall(process.stdout) if process.command == "demo" else ()
        self._look({"stdout": process.stdout}, earlier | self._made_known(keys))
        texts = {"stderr": process.stderr}
        url = process.environ.get("RELAY_DATABASE_URL", "")
        if url.startswith("postgres"):
            assert self.dump is not None, "nobody has said how to dump a PostgreSQL database"
            texts["pg_dump"] = self.dump(url)
        self._look(texts, earlier)
        self._look_into_files(process, earlier)

    def _made_known(self, keys: Iterable[str]) -> set[str]:
        """The names of relay keys that are shown for the first time, as whoever makes one must."""
        names = {name for key in keys if (name := self.learn(key, "relay key")) is not None}
        first = names - self._shown
        self._shown |= names
        return first

    def _look_into_files(self, process: Process, earlier: set[str]) -> None:
        excused = {process.data_dir / name for name in SECRET_FILES}
        for file in sorted(process.directory.rglob("*")):
            if file.is_file() and file not in excused:
                self.swept["files"] += 1
                self.hits += sweep(self.canary, paths=[file], allowed=earlier)

    def _look(self, texts: Mapping[str, str | bytes], allowed: set[str]) -> None:
        self.swept["texts"] += len(texts)
        self.hits += sweep(self.canary, texts=texts, allowed=allowed)

    def _of(self, url: httpx.URL) -> Watched | None:
        origin = _origin(url)
        for watched in self._running.values():
            if origin in (watched.process.inference_url, watched.process.control_url):
                return watched
        return None


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _read(request: httpx.Request) -> Any:
    try:
        return _decoded(request.read())
    except RuntimeError:
        return None  # A body that is made while it is sent; none of the control plane's is.


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _members(document: Any, names: tuple[str, ...] = SECRET_MEMBERS) -> Iterator[str]:
    """Strings that a JSON document has under one of ``names``, however deep."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, str):
                if name in names:
                    yield value
            else:
                yield from _members(value, names)
    elif isinstance(document, list):
        for value in document:
            yield from _members(value, names)
