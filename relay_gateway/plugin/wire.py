"""Wire formats: what callers and upstreams speak, at which paths, and how it is metered.

A wire format is defined by one plugin and named ``family.operation`` (``acme.chat``). The core
looks formats up by name; a provider says which names it speaks, whoever defined them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

CONTENT = 1
"""The event carries the first or a further piece of the answer that a person would see."""
USAGE_ONLY = 2
"""The event carries usage figures and nothing else; it is withheld when the caller did not ask for
it."""
TERMINAL = 4
"""The event marks the regular end of the answer."""
FAILED = 8
"""The event reports an error inside a stream that began with status 200."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the inference plane that a wire format is spoken at.

    ``name`` is what usage records call it (``chat.completions``), ``path`` what callers ask for
    (always below ``/v1``), ``streams`` whether the body's ``stream`` member is honoured,
    ``upstream_path`` the same operation relative to a host's base URL without its version segment.
    """

    name: str
    path: str
    upstream_path: str
    method: str = "POST"
    streams: bool = True


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


class Dialect:
    """How a family of wire formats words its errors and model lists.

    This class renders the widespread shape ``{"error": {"message", "type", "code", "param"}}``,
    which is also what the gateway answers where no dialect applies. ``name`` is unique.
    """

    name: ClassVar[str] = "default"

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
    the other meters of the contract (``images``, ``characters``, …).
    """

    tokens: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    finish_reason: str | None = None
    upstream_model: str | None = None


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

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        raise NotImplementedError


def count(value: object) -> int | None:
    """``value`` as a figure of a meter: an integer from 0 to 2⁶³-1, else ``None``."""
    if type(value) is int and 0 <= value < 1 << 63:
        return value
    return None
