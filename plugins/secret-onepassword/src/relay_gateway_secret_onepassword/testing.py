"""A Connect server for tests: answers in the published shapes, for one access token."""

from __future__ import annotations

import json
import re
import secrets
import string
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

ID_LETTERS = string.ascii_lowercase + string.digits
_FILTER = re.compile(r'(name|title) eq "((?:[^"\\]|\\.)*)"')
Document = dict[str, Any]


def new_id() -> str:
    """An id as 1Password makes them: 26 lower-case letters and digits."""
    return "".join(secrets.choice(ID_LETTERS) for _ in range(26))


class FakeItem(msgspec.Struct):
    """An item; ``fields`` and ``sections`` are as on the wire."""

    title: str
    fields: list[Document] = msgspec.field(default_factory=list)
    sections: list[Document] = msgspec.field(default_factory=list)
    id: str = msgspec.field(default_factory=new_id)
    version: int = 1

    def set(self, label: str, value: str, *, section: str | None = None, **more: Any) -> None:
        """Gives the field of this label in this section a value; a new one has an id of its own."""
        self.version += 1
        where = None if section is None else {"id": self._section(section)}
        for known in self.fields:
            if (known["label"], known.get("section")) == (label, where):
                known["value"] = value
                return
        made = {"id": new_id(), "type": "CONCEALED", "label": label, "value": value, **more}
        self.fields.append(made if where is None else {**made, "section": where})

    def _section(self, label: str) -> str:
        for known in self.sections:
            if known["label"] == label:
                return str(known["id"])
        self.sections.append({"id": f"Section_{new_id()}", "label": label})
        return str(self.sections[-1]["id"])


class FakeVaultOfItems(msgspec.Struct):
    """A vault; ``readable`` is false for one that the token is not for."""

    name: str
    items: list[FakeItem] = msgspec.field(default_factory=list)
    id: str = msgspec.field(default_factory=new_id)
    readable: bool = True

    def add(self, title: str) -> FakeItem:
        """One more item."""
        self.items.append(FakeItem(title))
        return self.items[-1]


class ConnectAnswerError(Exception):
    """An answer with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class FakeConnect:
    """The server on a loopback port, in threads of its own; a context manager.

    ``status`` other than 200 is the answer to everything. ``requests`` are the paths asked for.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.status = 200
        self.vaults: list[FakeVaultOfItems] = []
        self.requests: list[str] = []
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def vault(self, name: str) -> FakeVaultOfItems:
        """One more vault."""
        self.vaults.append(FakeVaultOfItems(name))
        return self.vaults[-1]

    def answer(self, path: str, query: str, authorization: str) -> object:
        """What a request is answered. Raises :class:`ConnectAnswerError`."""
        self.requests.append(path)
        if self.status != 200:
            raise ConnectAnswerError(self.status, "as the test wants it")
        if authorization != f"Bearer {self.token}":
            raise ConnectAnswerError(401, "Invalid token signature")
        parts = path.strip("/").split("/")
        wanted = parse_qs(query).get("filter", [None])[0]
        if parts == ["v1", "vaults"]:
            seen = [vault for vault in self.vaults if vault.readable]
            return [{"id": v.id, "name": v.name} for v in seen if _passes(wanted, "name", v.name)]
        vault = self._vault(parts[2])
        if len(parts) == 4:
            items = [item for item in vault.items if _passes(wanted, "title", item.title)]
            return [_summary(item, vault) for item in items]
        return self._item(vault, parts[4])

    def _vault(self, vault_id: str) -> FakeVaultOfItems:
        for vault in self.vaults:
            if vault.id == vault_id and not vault.readable:
                raise ConnectAnswerError(403, "Authorization: token does not have permission")
            if vault.id == vault_id:
                return vault
        raise ConnectAnswerError(404, "Vault not found")

    def _item(self, vault: FakeVaultOfItems, item_id: str) -> Document:
        for item in vault.items:
            if item.id == item_id:
                parts = {"fields": item.fields, "sections": item.sections}
                return {**_summary(item, vault), **parts}
        raise ConnectAnswerError(404, "Item not found")


def _summary(item: FakeItem, vault: FakeVaultOfItems) -> Document:
    return {
        "id": item.id,
        "title": item.title,
        "vault": {"id": vault.id},
        "category": "API_CREDENTIAL",
        "version": item.version,
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z",
    }


def _passes(wanted: str | None, attribute: str, value: str) -> bool:
    if wanted is None:
        return True
    match = _FILTER.fullmatch(wanted)
    if match is None or match.group(1) != attribute:
        raise ConnectAnswerError(400, "Invalid filter")
    return re.sub(r"\\(.)", r"\1", match.group(2)) == value


def _handler(connect: FakeConnect) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            # A peer that resets its connection is what tests of outages are about.
            try:
                super().handle_one_request()
            except OSError:
                self.close_connection = True

        def do_GET(self) -> None:
            target = urlsplit(self.path)
            status = 200
            try:
                given = self.headers.get("Authorization", "")
                answer = connect.answer(target.path, target.query, given)
            except ConnectAnswerError as error:
                status, answer = error.status, {"status": error.status, "message": str(error)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Tests have no log of their own."""

    return Handler
