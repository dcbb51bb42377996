"""The inference plane: from a request on the wire to the endpoint that answers it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Model, RelayKey
from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.addresses import AddressReader
from relay_gateway.ids import new_id
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.requests import (
    NONE,
    HeaderReader,
    client_request_id,
    proxy_mode_refused,
    user_agent,
)
from relay_gateway.log import request_id
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.route import is_usable, usable_models
from relay_gateway.pipeline.run import Pipeline
from relay_gateway.plugin.wire import Dialect, ListedModel
from relay_gateway.registry.plugins import ServedEndpoint

MODELS = "/v1/models"
_READ = ("GET", "HEAD")


class InferencePlane:
    """Handles every request that arrives at the inference address."""

    def __init__(
        self,
        live: LiveCatalog,
        pipeline: Pipeline,
        authenticator: Authenticator,
        answers: AnswerWriter,
        headers: HeaderReader,
        addresses: AddressReader,
        endpoints: Sequence[ServedEndpoint],
        dialects: Sequence[Dialect],
    ) -> None:
        self._live = live
        self._pipeline = pipeline
        self._authenticator = authenticator
        self._answers = answers
        self._headers = headers
        self._addresses = addresses
        self._routes: defaultdict[str, dict[str, ServedEndpoint]] = defaultdict(dict)
        for served in endpoints:
            self._routes[served.endpoint.path][served.endpoint.method] = served
        self._dialects = dialects
        self.draining = False

    def handle(self, caller: Caller) -> Coroutine[Any, Any, None]:
        """What answers one request, whatever it is; to be run by a task of its own."""
        routes = self._routes.get(caller.path) or self._routes.get(
            self._without_prefix(caller.path)
        )
        if routes is not None:
            route = routes.get(caller.method)
            if route is not None:
                return self._infer(caller, route)
        return self._answer(caller, routes)

    def interrupt(self) -> None:
        """Ends the answers that have begun, in the middle; for when the time to drain is over."""
        self._pipeline.interrupt()

    async def _answer(self, caller: Caller, routes: Mapping[str, ServedEndpoint] | None) -> None:
        try:
            self._serve(caller, routes)
        except RequestRefusedError as error:
            self._answers.respond_error(caller, self._dialect(caller, routes), error, new_id())

    def _infer(self, caller: Caller, route: ServedEndpoint) -> Coroutine[Any, Any, None]:
        call = Call(
            route.endpoint,
            route.wire_format,
            self._live.current,
            self._addresses.read(caller.client_address, caller.headers),
        )
        request_id.set(call.request_id)
        refused: RequestRefusedError | None = None
        try:
            self._read_headers(call, caller)
        except RequestRefusedError as error:
            refused = error
        return self._pipeline.run(call, caller, refused)

    def _read_headers(self, call: Call, caller: Caller) -> None:
        headers = caller.headers
        call.client_request_id, call.user_agent = client_request_id(headers), user_agent(headers)
        own = self._headers.read(headers)
        if own is not NONE:
            call.tags, call.pin = own.tags, own.pin
            if own.timeout is not None:
                call.deadline = call.received_at + own.timeout
            if own.proxy_mode:
                raise proxy_mode_refused(call.snapshot.settings.proxy_mode)
        self._require_catalog()
        _check_content(caller)

    def _serve(self, caller: Caller, routes: Mapping[str, ServedEndpoint] | None) -> None:
        """Everything that is not inference: health, models, and what does not exist."""
        if routes is not None:
            raise _wrong_method(caller.method, sorted(routes))
        path = self._without_prefix(caller.path)
        serve = {"/healthz": self._healthz, "/readyz": self._readyz, MODELS: self._models}.get(path)
        if serve is None and path.startswith(MODELS + "/"):
            serve = self._model
        if serve is None:
            raise self._unknown_endpoint(caller.path)
        if caller.method not in _READ:
            raise _wrong_method(caller.method, _READ)
        serve(caller)

    def _healthz(self, caller: Caller) -> None:
        self._answers.respond_json(caller, b'{"status":"ok"}', new_id())

    def _readyz(self, caller: Caller) -> None:
        ready = self._live.serves and not self.draining
        body = b'{"status":"ready"}' if ready else b'{"status":"not ready"}'
        self._answers.respond_json(caller, body, new_id(), 200 if ready else 503)

    def _models(self, caller: Caller) -> None:
        snapshot = self._live.current
        key = self._authenticate(caller)
        listed = [_listed(model) for model in usable_models(snapshot, snapshot.policy_of(key))]
        body = self._dialect(caller).models(listed)
        self._answers.respond_json(caller, body, new_id())

    def _model(self, caller: Caller) -> None:
        snapshot = self._live.current
        key = self._authenticate(caller)
        encoded = self._without_prefix(caller.path)[len(MODELS) + 1 :]
        name = unquote_to_bytes(encoded).decode("utf-8", "replace")
        model, _ = snapshot.find_model(name)
        policy = snapshot.policy_of(key)
        if model is None or policy is None or not is_usable(snapshot, policy, model):
            raise RequestRefusedError(
                404, "model_not_found", f"no model is called {name!r}", param="model"
            )
        body = self._dialect(caller).model(_listed(model))
        self._answers.respond_json(caller, body, new_id())

    def _require_catalog(self) -> None:
        if not self._live.serves:
            raise _not_serving(loaded=self._live.loaded)

    def _authenticate(self, caller: Caller) -> RelayKey:
        self._require_catalog()
        address = self._addresses.read(caller.client_address, caller.headers)
        return self._authenticator.authenticate(
            self._live.current, caller.headers, address, time.time()
        )

    def _without_prefix(self, path: str) -> str:
        """The path as if the caller had not put a host's ``pathPrefix`` before it."""
        prefix, slash, rest = path[1:].partition("/")
        return f"/{rest}" if slash and prefix in self._live.current.path_prefixes else path

    def _dialect(
        self, caller: Caller, routes: Mapping[str, ServedEndpoint] | None = None
    ) -> Dialect:
        if routes is not None:
            return next(iter(routes.values())).wire_format.dialect()
        names = caller.headers.names()
        for dialect in self._dialects:
            if dialect.claims(names):
                return dialect
        return Dialect()

    def _unknown_endpoint(self, path: str) -> RequestRefusedError:
        known = sorted(
            [f"{method} {path}" for path, routes in self._routes.items() for method in routes]
            + [f"GET {MODELS}", f"GET {MODELS}/{{id}}"]
        )
        return RequestRefusedError(
            404, "unknown_endpoint", f"there is no {path[:200]}; there are: {', '.join(known)}"
        )


def _check_content(caller: Caller) -> None:
    content_type = caller.headers.get(b"content-type")
    if content_type is not None and content_type != b"application/json":
        media = content_type.split(b";", 1)[0].strip().lower()
        if media != b"application/json" and not media.endswith(b"+json"):
            raise RequestRefusedError(
                415, "unsupported_media_type", "the body of this endpoint must be application/json"
            )
    encoding = caller.headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        raise RequestRefusedError(
            415, "unsupported_media_type", "compressed request bodies are not accepted"
        )


def _not_serving(*, loaded: bool) -> RequestRefusedError:
    if loaded:
        return RequestRefusedError(
            503, "snapshot_too_old", "the gateway's catalog is older than it may be", retry_after=1
        )
    return RequestRefusedError(
        503, "not_ready", "the gateway has not loaded its catalog yet", retry_after=1
    )


def _wrong_method(method: str, allowed: Sequence[str]) -> RequestRefusedError:
    return RequestRefusedError(
        405,
        "method_not_allowed",
        f"{method} is not possible here; use {' or '.join(allowed)}",
        headers=((b"allow", ", ".join(allowed).encode()),),
    )


def _listed(model: Model) -> ListedModel:
    return ListedModel(model.name, model.display_name, model.provider_slug, model.created)
