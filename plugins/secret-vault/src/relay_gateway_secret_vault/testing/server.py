"""The server: namespaces, tokens and mounts behind HTTP, in threads of its own."""

from __future__ import annotations

import json
import ssl
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from relay_gateway_secret_vault.testing.answers import (
    Document,
    VaultAnswerError,
    bad_request,
    envelope,
    not_found,
    permission_denied,
)
from relay_gateway_secret_vault.testing.engines import Engine, KvTwo, make_engine
from relay_gateway_secret_vault.testing.tokens import AppRoles, Token, Tokens, WebIdentities

CAPABILITIES = {"GET": "read", "POST": "update", "PUT": "update", "DELETE": "delete"}


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class FakeVault:
    """An unsealed development server on a loopback port: KV 2 at ``secret``, the method ``approle``
    once it is enabled. A context manager.

    ``kubernetes`` and ``jwt`` are there with the roles that a test gives them. With ``namespace``
    set, requests for another one find nothing. ``requests`` are the paths that were asked for.
    """

    def __init__(
        self, root: str = "root-token-of-the-fake", *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.root = root
        self.sealed = False
        self.namespace = ""
        self.standby = ""
        """Where another server is active, to which all requests are sent."""
        self.requests: list[str] = []
        self.tokens = Tokens(root)
        self.approle = AppRoles(self.tokens)
        self.kubernetes = WebIdentities(self.tokens, permission_denied())
        self.jwt = WebIdentities(self.tokens, bad_request("error validating token"))
        self._mounts: dict[str, Engine] = {"secret": KvTwo()}
        self._logins: dict[str, AppRoles | WebIdentities] = {
            "kubernetes": self.kubernetes,
            "jwt": self.jwt,
        }
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(
        self, method: str, path: str, query: Document, body: Document, headers: Message
    ) -> Document | None:
        """The document of an answer; ``None`` is 204. Raises :class:`VaultAnswerError`."""
        with self._lock:
            self.requests.append(path)
            if self.sealed:
                raise VaultAnswerError(503, "Vault is sealed")
            if str(headers.get("X-Vault-Namespace", "")).strip("/") != self.namespace:
                raise not_found()
            if path.startswith("auth/") and path.endswith("/login"):
                return self._log_in(path.removeprefix("auth/").removesuffix("/login"), body)
            given = str(headers.get("X-Vault-Token", ""))
            if path.startswith("sys/internal/ui/mounts/"):
                token = self.tokens.permit(given, "auth/token/lookup-self", "read")
                return self._mount_facts(path.removeprefix("sys/internal/ui/mounts/"), token)
            token = self.tokens.permit(given, path, CAPABILITIES.get(method, "list"))
            return self._route(method, path, query, body, token)

    def _log_in(self, mount: str, body: Document) -> Document:
        if mount not in self._logins:
            raise permission_denied()
        return self._logins[mount].log_in(body)

    def _route(
        self, method: str, path: str, query: Document, body: Document, token: Token
    ) -> Document | None:
        if path.startswith("auth/token/"):
            return self._token(path.removeprefix("auth/token/"), body, token)
        if (method, path) == ("GET", "sys/mounts"):
            return envelope({f"{name}/": _facts(name, self._mounts[name]) for name in self._mounts})
        if path.startswith("sys/"):
            self._configure(method, path.removeprefix("sys/"), body)
            return None
        if path.startswith("auth/"):
            return self._role(method, path.split("/")[1:], body)
        mount = self._mount_of(path)
        if mount is None:
            raise VaultAnswerError(404, f'no handler for route "{path}". route entry not found.')
        return self._mounts[mount].handle(method, path[len(mount) + 1 :], query, body)

    def _token(self, action: str, body: Document, token: Token) -> Document | None:
        if action == "lookup-self":
            return self.tokens.look_up(token)
        if action == "renew-self":
            return self.tokens.renew(token, body)
        if action == "revoke-self":
            del self.tokens.live[token.id]
            return None
        made = self.tokens.issue(body)
        return envelope(auth=made.auth(made.ttl))

    def _configure(self, method: str, path: str, body: Document) -> None:
        kind, _, name = path.partition("/")
        if kind == "policy":
            self.tokens.write_policy(name, body["policy"])
        elif kind == "mounts" and method == "DELETE":
            self._mounts.pop(name)
        elif kind == "mounts":
            self._mounts[name] = make_engine(body)
        elif kind == "auth":
            self._logins[name] = self.approle
        else:
            raise not_found()

    def _role(self, method: str, parts: list[str], body: Document) -> Document | None:
        mount, _, name, *rest = parts
        if self._logins.get(mount) is not self.approle:
            raise not_found()
        if rest == ["role-id"]:
            return self.approle.role_id(name)
        if rest == ["secret-id"]:
            return self.approle.new_secret_id(name)
        self.approle.write(name, body)
        return None

    def _mount_of(self, path: str) -> str | None:
        found = [mount for mount in self._mounts if path == mount or path.startswith(f"{mount}/")]
        return max(found, key=len, default=None)

    def _mount_facts(self, path: str, token: Token) -> Document:
        mount = self._mount_of(path)
        if mount is None or not self.tokens.sees_mount(token, mount):
            raise VaultAnswerError(
                403, "preflight capability check returned 403, please ensure client's"
            )
        return envelope(_facts(mount, self._mounts[mount]))


def _facts(mount: str, engine: Engine) -> Document:
    return {"path": f"{mount}/", "type": engine.kind, "options": engine.options}


def _handler(vault: FakeVault) -> type[BaseHTTPRequestHandler]:
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
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            path = unquote(target.path).removeprefix("/v1/").strip("/")
            query = parse_qs(target.query)
            if vault.standby:
                self._send(307, b"", ("Location", f"{vault.standby}{self.path}"))
                return
            try:
                answer = vault.answer(self.command, path, query, body, self.headers)
            except VaultAnswerError as fault:
                self._send(fault.status, json.dumps(fault.document()).encode())
                return
            status = 204 if answer is None else 200
            self._send(status, b"" if answer is None else json.dumps(answer).encode())

        do_POST = do_PUT = do_DELETE = do_LIST = do_GET  # noqa: N815 - the base's names

        def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (("Content-Type", "application/json"), *headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Tests have no log of their own."""

    return Handler
