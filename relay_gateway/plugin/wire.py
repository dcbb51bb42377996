"""Wire formats: what callers and upstreams speak, at which paths, and how it is metered.

A wire format is defined by one plugin and named ``family.operation`` (``acme.chat``). The core
looks formats up by name; a provider says which names it speaks, whoever defined them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import msgspec

from relay_gateway.plugin.codec import WireCodec

CONTENT = 1
"""The event carries the first or a further piece of the answer that a person would see."""
USAGE_ONLY = 2
"""The event carries usage figures and nothing else; it is withheld when the caller did not ask for
it."""
TERMINAL = 4
"""The event marks the regular end of the answer."""
FAILED = 8
"""The event reports an error inside a stream that began with status 200."""
LAST = 16
"""Besides ``TERMINAL``: nothing comes after the event, least of all figures. Callers take it for
the end, so what was used is written down before they have it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the inference plane that a wire format is spoken at.

    ``name`` is what usage records call it (``chat.completions``), ``path`` what callers ask for,
    ``streams`` whether the body's ``stream`` member is honoured, ``upstream_path`` the same
    operation relative to a host's base URL without its version segment.

    ``body`` is what a request's body may be: JSON, a multipart form whose fields ``model`` and
    ``stream`` say what the members of that name say elsewhere, or either.

    ``{model}`` in a path stands for the name of the model; such a path says what a body says
    elsewhere, so it ``streams`` always or never. ``needs_query`` is what the query must have.
    """

    name: str
    path: str
    upstream_path: str
    method: str = "POST"
    streams: bool = True
    needs_query: str = ""
    body: Literal["json", "form", "either"] = "json"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error on its way to a caller, before it has a shape.

    ``status`` and ``code`` are those of the gateway's contract, ``message`` is safe to show.
    """

    status: int
    code: str
    message: str
    param: str | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as ``GET /v1/models`` shows it. ``created`` is seconds since the epoch."""

    name: str
    display_name: str
    owner: str
    created: int


class _Error(msgspec.Struct):
    error: Any = None


_ERRORS = msgspec.json.Decoder(_Error)


class Dialect:
    """How a family of wire formats words its errors and model lists.

    This class renders the widespread shape ``{"error": {"message", "type", "code", "param"}}``,
    which is also what the gateway answers where no dialect applies. ``name`` is unique.
    """

    name: ClassVar[str] = "default"
    ping: ClassVar[bytes] = b": ping\n\n"
    """What is written into a stream that is quiet for long. Readers of server-sent events skip
    comments; a dialect whose clients do not has to say something else."""
    models_path: ClassVar[str] = ""
    """Where callers of this dialect ask for the list of models, if not at ``/v1/models`` alone; one
    model is asked for below it."""

    def claims(self, header_names: frozenset[bytes] | set[bytes]) -> bool:
        """Whether a request to a path that dialects share (``/v1/models``) is in this dialect, told
        from the lower-case names of its headers."""
        return False

    def error(self, problem: Problem) -> tuple[int, bytes]:
        """Status and JSON body of an error answer."""
        kind = "invalid_request_error" if problem.status < 500 else "server_error"
        if problem.status == 429:
            kind = "rate_limit_error"
        elif problem.status == 401:
            kind = "authentication_error"
        elif problem.status == 403:
            kind = "permission_error"
        error = {
            "message": problem.message,
            "type": kind,
            "param": problem.param,
            "code": problem.code,
        }
        return problem.status, msgspec.json.encode({"error": error})

    def read_error(self, body: bytes) -> tuple[str | None, str | None]:
        """Code and message of an error answer of an upstream in this dialect, where it has them.

        This reads the shapes that most have: ``error`` as an object with ``message`` and ``code``,
        ``type`` or ``status``, or as a text.
        """
        try:
            error = _ERRORS.decode(body).error
        except (ValueError, RecursionError):
            return None, None
        if isinstance(error, str):
            return None, error
        if not isinstance(error, dict):
            return None, None
        names = (error.get(name) for name in ("code", "type", "status"))
        code = next((name for name in names if isinstance(name, str) and name), None)
        message = error.get("message")
        return code, message if isinstance(message, str) else None

    def error_event(self, problem: Problem) -> bytes:
        """The error as a complete server-sent event, for a stream that breaks after it began."""
        return b"data: " + self.error(problem)[1] + b"\n\n"

    def models(self, models: Sequence[ListedModel]) -> bytes:
        """JSON body of a list of models."""
        return msgspec.json.encode({"object": "list", "data": [_listed(model) for model in models]})

    def model(self, model: ListedModel) -> bytes:
        """JSON body of one model."""
        return msgspec.json.encode(_listed(model))


def _listed(model: ListedModel) -> dict[str, object]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": model.owner,
    }


@dataclass(slots=True)
class Reading:
    """What a meter has read so far.

    ``tokens`` has meter names without ``tokens.`` (``input`` includes the cached part, ``output``
    includes reasoning); absent means the upstream did not say, 0 means it said zero. ``units`` has
    the other meters of the contract (``images``, ``characters``, …). ``tier`` is the upstream's
    word for how it processed the request (``flex``, ``priority``, ``batch``, …).
    """

    tokens: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    finish_reason: str | None = None
    upstream_model: str | None = None
    tier: str | None = None


class UsageMeter:
    """Reads usage from one answer. It only ever sees copies: nothing it does changes the answer.

    An exception ends metering for this answer and nothing else. Figures that are not integers ≥ 0
    are to be ignored.
    """

    def __init__(self) -> None:
        self.reading = Reading()

    def body(self, body: bytes) -> None:
        """A whole answer that is not a stream."""
        raise NotImplementedError

    def event(self, name: bytes, data: bytes) -> int:
        """One server-sent event of a stream (``name`` empty when it has none); returns a sum of the
        flags of this module."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class UsageOption:
    """The request member with which a caller asks for usage figures in a stream.

    ``member`` names an object at the top level of the body, ``flag`` its boolean member. Where the
    caller left it out, the gateway sets it and withholds ``USAGE_ONLY`` events.
    """

    member: str
    flag: str


class WireFormat:
    """One request and answer format. Stateless; one instance serves all requests."""

    name: ClassVar[str]
    dialect: ClassVar[type[Dialect]] = Dialect
    endpoints: ClassVar[tuple[Endpoint, ...]] = ()
    usage_option: ClassVar[UsageOption | None] = None
    stream_ends_with_terminal: ClassVar[bool] = True
    """Whether every complete stream has an event that its meter flags ``TERMINAL``; a stream
    without it is then recorded as broken off."""
    output_limits: ClassVar[tuple[str, ...]] = ()
    """Members of a request that bound the tokens of its answer: a name at the top level of the
    body, or ``outer.inner``. The first is what the gateway sets where a policy bounds them and the
    caller does not."""
    bills_request: ClassVar[bool] = False
    """Whether a request says itself what is billed for it; see :meth:`asked_units`."""

    def asked_units(self, body: bytes) -> Mapping[str, int]:
        """Units by meter (``characters``) that a request with this body uses, for hosts whose
        answers do not tell; asked only where ``bills_request`` is true. A usage record calls them
        estimated, and has them only where its meter read nothing."""
        return {}

    def renamed(self, body: bytes, model: str) -> bytes:
        """The body of a request for a host that calls the model ``model``; asked only where the
        path says the model, and there only where the host has another name for it than the caller.
        By default such bodies do not say it again."""
        return body

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        raise NotImplementedError

    def codec(self) -> WireCodec | None:
        """What translates this format; ``None`` where it can only be passed on as it is."""
        return None


def count(value: object) -> int | None:
    """``value`` as a figure of a meter: an integer from 0 to 2⁶³-1, else ``None``."""
    if type(value) is int and 0 <= value < 1 << 63:
        return value
    return None
