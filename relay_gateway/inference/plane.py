"""The inference plane: from a request on the wire to the endpoint that answers it."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Model, RelayKey
from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.addresses import AddressReader
from relay_gateway.ids import new_id
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.proxy_mode import ProxyMode, split_prefix
from relay_gateway.inference.requests import (
    NONE,
    HeaderReader,
    client_request_id,
    user_agent,
)
from relay_gateway.inference.routes import Methods, Routes
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.facts import HeadFacts
from relay_gateway.pipeline.guarding import Guarding
from relay_gateway.pipeline.guarding_proxy import GuardedProxy
from relay_gateway.pipeline.guarding_run import GuardedPipeline
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.route import is_usable, usable_models
from relay_gateway.plugin.wire import Dialect, Endpoint, ListedModel
from relay_gateway.registry.plugins import ServedEndpoint

MODELS = "/v1/models"
FORM = b"multipart/form-data"
_MEDIA = {
    "json": "application/json",
    "form": "multipart/form-data",
    "either": "application/json or multipart/form-data",
}
_READ = ("GET", "HEAD")


class InferencePlane:
    """Handles every request that arrives at the inference address."""

    def __init__(
        self,
        live: LiveCatalog,
        pipeline: GuardedPipeline,
        authenticator: Authenticator,
        answers: AnswerWriter,
        headers: HeaderReader,
        addresses: AddressReader,
        endpoints: Sequence[ServedEndpoint],
        dialects: Sequence[Dialect],
        proxy: GuardedProxy,
    ) -> None:
        self._live = live
        self._pipeline = pipeline
        self._begin = pipeline.begin
        self._authenticator = authenticator
        self._answers = answers
        self._headers = headers
        self._addresses = addresses
        self._speak(endpoints, dialects)
        self._proxy_mode = ProxyMode(proxy, pipeline, headers, addresses, self._routes, dialects)
        self.draining = False

    def providers_changed(
        self, endpoints: Sequence[ServedEndpoint], dialects: Sequence[Dialect]
    ) -> None:
        """Serves these endpoints from now on, and looks at the providers again."""
        self._speak(endpoints, dialects)
        self._proxy_mode.follow(self._routes, dialects)
        self._proxy_mode.proxy.providers_changed()
        self._answers.providers_changed()

    def guard(self, guarding: Guarding | None) -> None:
        """Has requests guarded from now on, or no longer; those that have begun go on as they
        are."""
        pipeline = self._pipeline
        pipeline.guarding = guarding
        self._begin = pipeline.begin if guarding is None else pipeline.begin_guarded
        self._proxy_mode.guard(guarding)

    def _speak(self, endpoints: Sequence[ServedEndpoint], dialects: Sequence[Dialect]) -> None:
        self._routes = Routes(endpoints)
        self._dialects = dialects
        self._listings = {
            MODELS: None,
            **{dialect.models_path: dialect for dialect in dialects if dialect.models_path},
        }

    def handle(self, caller: Caller) -> Coroutine[Any, Any, None] | None:
        """Begins to answer one request, whatever it is; what is returned must be run in a task."""
        facts = caller.memory.known
        if facts is not None and facts.snapshot is self._live.current and self._live.serves:
            return self._begin(Call.of(facts), caller)
        if self._proxy_mode.is_wanted(caller):
            live = self._live
            refusal = None if live.serves else _not_serving(loaded=live.loaded)
            return self._proxy_mode.begin(caller, live.current, refusal)
        found = self._routes.find(caller.path)
        if found is None:
            found = self._routes.find(self._without_prefix(caller.path))
        route = found.methods.get(caller.method) if found is not None else None
        if found is not None and route is not None:
            return self._infer(caller, route, found.model)
        self._answer(caller, found.methods if found is not None else None)
        return None

    @property
    def without_task(self) -> int:
        """How many requests are under way without a task."""
        return self._pipeline.without_task + self._proxy_mode.proxy.without_task

    def interrupt(self) -> None:
        """Ends the answers that have begun, in the middle; for when the time to drain is over."""
        self._pipeline.interrupt()
        self._proxy_mode.proxy.interrupt()

    def _answer(self, caller: Caller, routes: Methods | None) -> None:
        try:
            self._serve(caller, routes)
        except RequestRefusedError as error:
            dialect = self._dialect(caller, routes)
            caller.respond(*self._answers.error(dialect, error, new_id()))

    def _infer(
        self, caller: Caller, route: ServedEndpoint, model: str | None
    ) -> Coroutine[Any, Any, None] | None:
        headers = caller.headers
        facts = HeadFacts(
            self._live.current,
            route.endpoint,
            route.wire_format,
            self._addresses.read(caller.client_address, headers),
            client_request_id(headers),
            user_agent(headers),
            NONE.tags,
            pin=None,
            model=model,
        )
        call = Call.of(facts)
        try:
            self._read_headers(call, caller, facts)
        except RequestRefusedError as error:
            call.facts = None
            return self._begin(call, caller, error)
        return self._begin(call, caller)

    def _read_headers(self, call: Call, caller: Caller, facts: HeadFacts) -> None:
        own = self._headers.read(caller.headers)
        if own is not NONE:
            call.tags, call.pin = own.tags, own.pin
            facts.tags, facts.pin = own.tags, own.pin
            if own.timeout is not None:
                call.deadline = call.received_at + own.timeout
        self._require_catalog()
        _check_content(caller, call.endpoint)
        _check_query(caller, call.endpoint)
        if call.deadline is None:
            caller.memory.known = facts

    def _serve(self, caller: Caller, routes: Methods | None) -> None:
        """Everything that is not inference: health, models, and what does not exist."""
        if routes is not None:
            raise _wrong_method(caller.method, sorted(routes))
        path = self._without_prefix(caller.path)
        serve = {"/healthz": self._healthz, "/readyz": self._readyz}.get(path)
        listing = self._listing(path)
        if listing is not None:
            serve = self._models if path == listing else self._model
        if serve is None and self._proxy_mode.is_probe(caller, self._live.current):
            serve = self._probed
        operation = ":" in path and caller.method not in _READ
        if serve is None or operation:
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

    def _probed(self, caller: Caller) -> None:
        caller.respond(200, self._answers.request_id(new_id()), b"")

    def _models(self, caller: Caller) -> None:
        snapshot = self._live.current
        key = self._authenticate(caller)
        listed = [_listed(model) for model in usable_models(snapshot, snapshot.policy_of(key))]
        body = self._dialect(caller).models(listed)
        self._answers.respond_json(caller, body, new_id())

    def _model(self, caller: Caller) -> None:
        snapshot = self._live.current
        key = self._authenticate(caller)
        path = self._without_prefix(caller.path)
        encoded = path[len(self._listing(path) or "") + 1 :]
        name = unquote_to_bytes(encoded).decode("utf-8", "replace")
        model, _ = snapshot.find_model(name)
        policy = snapshot.policy_of(key)
        if model is None or policy is None or not is_usable(snapshot, policy, model):
            raise RequestRefusedError(
                404, "model_not_found", f"no model is called {name!r}", param="model"
            )
        body = self._dialect(caller).model(_listed(model))
        self._answers.respond_json(caller, body, new_id())

    def _listing(self, path: str) -> str | None:
        """The path of the list of models that ``path`` asks for, or for one entry of."""
        for listing in self._listings:
            if path == listing or (path.startswith(listing) and path[len(listing)] == "/"):
                return listing
        return None

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
        return split_prefix(path, self._live.current)[1]

    def _dialect(self, caller: Caller, routes: Methods | None = None) -> Dialect:
        if routes is not None:
            return next(iter(routes.values())).wire_format.dialect()
        listed = self._listings.get(self._listing(self._without_prefix(caller.path)) or "")
        if listed is not None:
            return listed
        names = caller.headers.names()
        for dialect in self._dialects:
            if dialect.claims(names):
                return dialect
        return Dialect()

    def _unknown_endpoint(self, path: str) -> RequestRefusedError:
        models = [f"GET {path}{one}" for path in self._listings for one in ("", "/{id}")]
        known = sorted([*self._routes.known, *models])
        return RequestRefusedError(
            404, "unknown_endpoint", f"there is no {path[:200]}; there are: {', '.join(known)}"
        )


def _check_content(caller: Caller, endpoint: Endpoint) -> None:
    content_type = caller.headers.get(b"content-type")
    if content_type != b"application/json" or endpoint.body == "form":
        _check_media(content_type, endpoint)
    encoding = caller.headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        raise RequestRefusedError(
            415, "unsupported_media_type", "compressed request bodies are not accepted"
        )


def _check_media(content_type: bytes | None, endpoint: Endpoint) -> None:
    media = (content_type or b"").split(b";", 1)[0].strip().lower()
    # JSON needs no telling; a form cannot be read without its boundary.
    is_json = content_type is None or media == b"application/json" or media.endswith(b"+json")
    if (is_json and endpoint.body != "form") or (media == FORM and endpoint.body != "json"):
        return
    raise RequestRefusedError(
        415,
        "unsupported_media_type",
        f"the body of this endpoint must be {_MEDIA[endpoint.body]}",
    )


def _check_query(caller: Caller, endpoint: Endpoint) -> None:
    wanted = endpoint.needs_query
    if wanted and wanted.encode() not in caller.query.split(b"&"):
        raise RequestRefusedError(
            400,
            "invalid_request",
            f"{endpoint.path} is only answered with {wanted!r} in its query",
            param=wanted.partition("=")[0],
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
