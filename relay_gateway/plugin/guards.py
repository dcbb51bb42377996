"""Guards: they may inspect, change or refuse a request before a host is asked, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal

from pydantic import Field
from typing_extensions import TypeVar

from relay_gateway.plugin.base import Plugin, PluginConfig
from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse, StreamEvent

GUARD_REFUSED = "guard_refused"
"""The code of a refusal by a guard, where it does not say another."""
OnFailure = Literal["open", "closed"]
ContentT = TypeVar("ContentT", bound=CanonicalRequest | CanonicalResponse)


@dataclass(frozen=True, slots=True)
class Allow:
    """Nothing is to be said against it: it goes on as it is."""


@dataclass(frozen=True, slots=True)
class Replace(Generic[ContentT]):
    """It goes on as ``content``, made from what was given with ``msgspec.structs.replace``.

    Of a request the members ``model``, ``stream`` and ``origin`` stay what they were.
    """

    content: ContentT


@dataclass(frozen=True, slots=True)
class Refuse:
    """The caller is answered an error instead: ``status`` (400 to 499), ``code`` and ``reason``.

    ``reason`` is shown to the caller and logged, so it never quotes what was found. In a stream
    that has begun the error is its last event, and the connection ends.
    """

    reason: str
    status: int = 403
    code: str = GUARD_REFUSED


RequestJudgement = Allow | Replace[CanonicalRequest] | Refuse
ResponseJudgement = Allow | Replace[CanonicalResponse] | Refuse


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks for what, as far as it is known when a guard is asked.

    ``relay_key`` and ``policy`` are slugs, ``None`` for a caller in proxy mode without a relay key;
    ``model`` is the caller's word for the model, ``endpoint`` the name that usage records have,
    ``tags`` those of the relay key and of the request.
    """

    request_id: str
    endpoint: str
    wire_format: str
    mode: Literal["gateway", "proxy"] = "gateway"
    model: str | None = None
    streamed: bool = False
    relay_key: str | None = None
    policy: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


class GuardConfig(PluginConfig):
    """Base of the section ``[guards.NAME]``: what every guard can be told."""

    endpoints: tuple[str, ...] = Field(
        default=(),
        description="Endpoints that it guards, by the names that usage records have "
        "(`chat.completions`); `other` is what proxy mode passes on and no wire format has. "
        "Empty: all.",
    )
    policies: tuple[str, ...] = Field(
        default=(), description="Slugs of the policies whose callers it guards. Empty: all callers."
    )
    modes: tuple[Literal["gateway", "proxy"], ...] = Field(
        default=("gateway", "proxy"), description="Modes that it guards."
    )
    on_failure: OnFailure | None = Field(
        default=None,
        description="Whether a request goes on (`open`) or is refused (`closed`) when the guard "
        "fails, is too slow, or when the content cannot be read or changed. Unset: as the plugin "
        "declares.",
    )
    deadline_seconds: float | None = Field(
        default=None,
        gt=0,
        le=300,
        description="How long one inspection may take. Unset: as the plugin declares.",
    )
    dry_run: bool = Field(
        default=False,
        description="Only count and report what it would do: nothing is changed or refused.",
    )


GuardConfigT = TypeVar("GuardConfigT", bound=GuardConfig, default=Any)


class StreamGuard:
    """Guards one streamed answer, event by event, without waiting for anything.

    What it holds back is its own affair and must be bounded. It must let go of it when the part
    that it belongs to stops. Events must stay well-formed: parts that start also stop, and
    ``Finished`` or ``Failed`` comes last.
    """

    def event(self, event: StreamEvent) -> Sequence[StreamEvent] | Refuse:
        """What goes on in place of ``event``: itself, others, or nothing yet."""
        raise NotImplementedError


class Guard(Plugin[GuardConfigT]):
    """Stands before hosts and before callers; ``[guarding] order`` says which guards, and in which
    order.

    Content is in the provider-neutral form of :mod:`relay_gateway.plugin.canonical`, whatever the
    formats on either side. A guard sees what the ones before it made of the content. ``Config`` is
    a subclass of :class:`GuardConfig`. Both inspections may be plain functions or ``async`` ones.
    """

    Config: ClassVar[type[PluginConfig]] = GuardConfig

    on_failure: ClassVar[OnFailure] = "closed"
    """What happens when the guard fails, unless its section says otherwise: ``closed`` refuses the
    request, ``open`` lets it go on."""
    deadline: ClassVar[float] = 1.0
    """Seconds that one inspection may take, unless its section says otherwise."""
    reads_requests: bool = True
    """Whether :meth:`inspect_request` works. Classes set these three, or instances when they are
    made."""
    reads_responses: bool = False
    """Whether :meth:`inspect_response` works."""
    reads_streams: bool = False
    """Whether :meth:`inspect_stream` works too; if not, an answer in a stream counts as one that
    the guard cannot read."""

    def inspect_request(
        self, request: CanonicalRequest, who: Requester
    ) -> RequestJudgement | Awaitable[RequestJudgement]:
        """Judges a request before a host is asked. ``request`` must not be changed in place."""
        raise NotImplementedError

    def inspect_response(
        self, response: CanonicalResponse, who: Requester
    ) -> ResponseJudgement | Awaitable[ResponseJudgement]:
        """Judges a whole answer before the caller gets any of it."""
        raise NotImplementedError

    def inspect_stream(self, who: Requester) -> StreamGuard:
        """A fresh guard of one streamed answer."""
        raise NotImplementedError

    @property
    def fails_closed(self) -> bool:
        """Whether a request is refused when this guard fails."""
        return (self.config.on_failure or self.on_failure) == "closed"

    @property
    def seconds(self) -> float:
        """How long one inspection may take."""
        declared: float | None = self.config.deadline_seconds
        return self.deadline if declared is None else declared
