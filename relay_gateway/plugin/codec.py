"""Codecs: one wire format, to and from the provider-neutral form of :mod:`.canonical`.

A codec is pure and has no state between requests; what a stream needs to remember is in the decoder
or encoder made for it. Errors that are whole answers have another way: the ``Dialect`` of a format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    CanonicalResponse,
    NativePart,
    NativeTool,
    Origin,
    Part,
    StreamEvent,
    Text,
    ToolCall,
    Unheld,
)
from relay_gateway.plugin.canonical.features import Feature, Support
from relay_gateway.plugin.canonical.presence import features_of
from relay_gateway.plugin.members import Members, refuse


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a feature in one format.

    ``name`` is what the format itself calls it, empty where its callers cannot ask for it;
    ``note`` says how it is approximated, or what to do instead of a refused one.
    """

    support: Support
    name: str = ""
    note: str = ""


def carried(name: str) -> Fate:
    """The format has the feature, as ``name``."""
    return Fate(Support.CARRIED, name)


def approximated(note: str, name: str = "") -> Fate:
    """The format has something near; ``note`` says what."""
    return Fate(Support.APPROXIMATED, name, note)


def dropped(note: str = "", name: str = "") -> Fate:
    """The format has nothing of the kind, and an answer without it is still the one asked for."""
    return Fate(Support.DROPPED, name, note)


def refused(note: str, name: str = "") -> Fate:
    """The format cannot do it, and an answer without it would be another one."""
    return Fate(Support.REFUSED, name, note)


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """What an encoder may need to know of the model and the host.

    ``max_output_tokens`` is the most that the model can give, for formats in which a request must
    say a limit. ``host_config`` is the host's ``adapterConfig``, for formats that hosts speak with
    differences; a codec heeds it if it is of a model that it knows, and of any other says nothing.
    """

    max_output_tokens: int | None = None
    host_config: Any = None


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request ready to send. ``dropped`` names what the caller asked for and the request does not
    say, in the caller's words."""

    body: bytes
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """What an answer is written for: the request it answers, an id where the upstream gave none,
    and the time in seconds since the epoch."""

    request: CanonicalRequest
    answer_id: str
    created: int


@dataclass(slots=True)
class Draft:
    """A request being written: members so far, and what had to be left out."""

    body: dict[str, Any] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def put(self, **members: Any) -> None:
        """Adds the members that are not ``None``."""
        self.body.update({name: value for name, value in members.items() if value is not None})


class StreamDecoder:
    """Reads one streamed answer, event by event."""

    def event(self, name: bytes, data: bytes) -> list[StreamEvent]:
        """What one server-sent event says; nothing is held back that is not needed. Raises
        :class:`UpstreamProtocolError` for what is not of the format."""
        raise NotImplementedError

    def end(self) -> list[StreamEvent]:
        """The stream ended regularly on the wire: what is left to say. Without a ``Finished`` among
        all events the answer was cut off."""
        return []


class StreamEncoder:
    """Writes one streamed answer, event by event."""

    def encode(self, event: StreamEvent) -> bytes:
        """The bytes for one event, empty where the format says nothing at it. Raises
        :class:`UpstreamProtocolError` where the stream outgrows what the format makes it keep."""
        raise NotImplementedError


class WireCodec:
    """Translates one wire format. ``format`` is its name, ``features`` says what becomes of each
    feature when a request is written in it.

    A feature that is refused or dropped is dealt with by this class; the writer of a format only
    ever meets what it declares to carry or to approximate.
    """

    format: ClassVar[str]
    features: ClassVar[Mapping[Feature, Fate]]
    advisory: ClassVar[frozenset[str]] = frozenset()
    """Members of this format that the canonical form does not hold and that are advice only, with
    ``[]`` for any index (``messages[].content[].citations``). All others are demands."""

    def decode_request(
        self, body: bytes, *, model: str = "", streamed: bool = False
    ) -> CanonicalRequest:
        """The request in ``body``; ``model`` and ``streamed`` are what the path says, for formats
        whose bodies do not. Raises :class:`RequestRefusedError` (400) naming the field."""
        raise NotImplementedError

    def encode_request(
        self, request: CanonicalRequest, model: str, options: EncodeOptions | None = None
    ) -> EncodedRequest:
        """``request`` in this format, asking for ``model``. Raises :class:`RequestRefusedError`
        (400) naming, in the caller's words, the field that cannot be carried."""
        lost = list(dict.fromkeys([*self._lost_features(request), *self._lost_members(request)]))
        draft = self.write_request(request, model, options or EncodeOptions())
        lost += [name for name in draft.dropped if name not in lost]
        return EncodedRequest(msgspec.json.encode(draft.body), tuple(lost))

    def write_request(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> Draft:
        """The members of the request; to be implemented by a format."""
        raise NotImplementedError

    def decode_response(self, body: bytes) -> CanonicalResponse:
        """A whole answer. Raises :class:`UpstreamProtocolError` for what is none."""
        raise NotImplementedError

    def encode_response(self, response: CanonicalResponse, context: AnswerContext) -> bytes:
        """A whole answer in this format."""
        raise NotImplementedError

    def stream_decoder(self) -> StreamDecoder:
        """A fresh decoder for one stream."""
        raise NotImplementedError

    def stream_encoder(self, context: AnswerContext) -> StreamEncoder:
        """A fresh encoder for one stream."""
        raise NotImplementedError

    def origin(self) -> Origin:
        """What a request read by this codec says about where it came from."""
        names = {feature: fate.name for feature, fate in self.features.items() if fate.name}
        return Origin(self.format, names)

    def note_unheld(self, origin: Origin, members: Members) -> dict[str, Any]:
        """Names what is left of ``members`` as not held, and returns it to be kept as ``extra``."""
        left = members.left()
        for name in left:
            path = members.at(name)
            origin.unheld.append(Unheld(path, without_indices(path) in self.advisory))
        return left

    def native_part(self, origin: Origin, members: Members) -> NativePart:
        """A part that only this format knows, of which nothing was taken yet."""
        return NativePart(self._native(origin, members))

    def native_tool(self, origin: Origin, members: Members) -> NativeTool:
        """A tool that only this format knows, of which nothing was taken yet."""
        return NativeTool(self._native(origin, members))

    @staticmethod
    def _native(origin: Origin, members: Members) -> dict[str, Any]:
        data = members.rest()
        kind = data.get("type")
        path = members.at("type") if isinstance(kind, str) else members.path
        origin.unheld.append(Unheld(path, kind=kind if isinstance(kind, str) else ""))
        return data

    def _lost_features(self, request: CanonicalRequest) -> Iterable[str]:
        own = request.origin.format == self.format
        for feature in sorted(features_of(request, self.format), key=_ORDER.__getitem__):
            fate = self.features[feature]
            if own and fate.name and feature is not Feature.FOREIGN_REASONING:
                continue  # the format can say it, it is only hard for others
            name = request.origin.names.get(feature, feature.value)
            if fate.support is Support.REFUSED:
                raise refuse(name, f"cannot be carried to {self.format}: {fate.note}")
            if fate.support is Support.DROPPED:
                yield name

    def _lost_members(self, request: CanonicalRequest) -> Iterable[str]:
        if request.origin.format == self.format:
            return
        for unheld in request.origin.unheld:
            if not unheld.advisory:
                raise self._not_carried(request, unheld)
            yield unheld.path

    def _not_carried(self, request: CanonicalRequest, unheld: Unheld) -> RequestRefusedError:
        kind = f" {unheld.kind[:40]!r}" if unheld.kind else ""
        return refuse(
            unheld.path,
            f"{kind.strip()}{' ' if kind else ''}is known to {request.origin.format} only, and "
            f"this model is asked in {self.format}; leave it out, or use a model whose host "
            "speaks your format",
        )


_ORDER = {feature: number for number, feature in enumerate(Feature)}


def without_indices(path: str) -> str:
    """``path`` with ``[]`` in place of every index."""
    head, *rest = path.split("[")
    return head + "".join("[]" + piece.partition("]")[2] for piece in rest)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a tool call as an object, for formats that do not take them as text.

    Raises ``ValueError`` when the model did not write a JSON object; nothing at all counts as one.
    """
    if not call.arguments.strip():
        return {}
    value = msgspec.json.decode(call.arguments)
    if not isinstance(value, dict):
        raise ValueError(f"the arguments of the tool call {call.id!r} are no JSON object")  # noqa: TRY004 - it is the text's value that is wrong
    return value


def text_of(parts: Iterable[Part]) -> str:
    """The text among ``parts``, one after the other."""
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))
