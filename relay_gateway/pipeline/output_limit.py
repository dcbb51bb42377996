"""How many tokens of answer a request allows: read for estimates, and held to a policy's maximum.

A request that asks for more than its policy allows is refused rather than cut down: an answer that
ends early without a word would look like the model's own doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.members import Member, TooManyError, find_members
from relay_gateway.plugin.wire import WireFormat

_UNREADABLE = (ValueError, RecursionError)


class _Found(msgspec.Struct, frozen=True):
    """A member that bounds the answer; ``start`` and ``end`` bound its value in the body."""

    path: str
    value: object
    start: int
    end: int


def asked_output(wire_format: WireFormat, body: bytes) -> int | None:
    """The tokens of answer that a valid body asks for at most; ``None`` where it does not say."""
    try:
        values = _values(wire_format.output_limits, body)
    except (RequestRefusedError, *_UNREADABLE):
        return None
    asked = None
    for value in values:
        if type(value) is int and value >= 0 and (asked is None or value > asked):
            asked = value
    return asked


class _Glance:
    """Reads the members at ``paths`` in one pass, where none of their names is in a body twice or
    can be hidden by escapes."""

    def __init__(self, paths: Sequence[str]) -> None:
        segments = [path.split(".") for path in paths]
        names = sorted({name for one in segments for name in one})
        fields = {name: f"f{number}" for number, name in enumerate(names)}
        self._names = [b'"%b"' % name.encode() for name in names]
        self._places = [tuple(fields[name] for name in one) for one in segments]
        outer: dict[str, Any] = {one[0]: Any for one in segments if len(one) == 1}
        for name in {one[0] for one in segments if len(one) > 1}:
            inner = {one[1]: Any for one in segments if one[0] == name and len(one) > 1}
            outer[name] = _struct(inner, fields) | None
        self._decode = msgspec.json.Decoder(_struct(outer, fields)).decode

    def read(self, body: bytes) -> list[object] | None:
        """What the members are that are there, and perhaps ``None`` for others; ``None`` where this
        cannot tell. Raises :class:`ValueError`."""
        if b"\\u" in body:
            return None
        found = 0
        for name in self._names:
            times = body.count(name)
            if times > 1:
                return None
            found += times
        return self._values(body) if found else []

    def _values(self, body: bytes) -> list[object] | None:
        try:
            members: object = self._decode(body)
        except msgspec.ValidationError:
            return None  # what should be around a member is no object
        values = []
        for place in self._places:
            value = members
            for name in place:
                value = getattr(value, name, None)
            values.append(value)
        return values


def _struct(members: Mapping[str, Any], fields: Mapping[str, str]) -> Any:
    return msgspec.defstruct(
        "_Glanced",
        [(fields[name], kind, None) for name, kind in members.items()],
        rename={fields[name]: name for name in members},
    )


@lru_cache(maxsize=64)
def _glance(paths: Sequence[str]) -> _Glance:
    return _Glance(paths)


def _values(paths: Sequence[str], body: bytes) -> Sequence[object]:
    values = _glance(paths).read(body)
    if values is None:
        found = [_find(body, path) for path in paths]
        values = [one.value for one in found if one is not None]
    return values


def bounded_output(wire_format: WireFormat, body: bytes, most: int, policy: str) -> bytes:
    """The body of a request that may have an answer of ``most`` tokens; one that does not say how
    many it wants is made to.

    Raises :class:`RequestRefusedError` (400) for one that wants more, or whose wish cannot be read.
    """
    paths = wire_format.output_limits
    if not paths:
        return body
    try:
        said = [_is_bounded(body, path, most, policy) for path in paths]
        return body if any(said) else _told(body, paths[0], most)
    except _UNREADABLE as error:
        raise _refused(f"the body is not valid JSON: {error}") from None


def refuse_more(wire_format: WireFormat, body: bytes, most: int, policy: str) -> None:
    """Refuses as :func:`bounded_output` does, for a body that must stay as it is and may be
    anything."""
    try:
        for path in wire_format.output_limits:
            _is_bounded(body, path, most, policy)
    except _UNREADABLE:
        return


def _is_bounded(body: bytes, path: str, most: int, policy: str) -> bool:
    """Whether the body has a bound at ``path``; raises where that is none or too high."""
    found = _find(body, path)
    if found is None or found.value is None:
        return False
    if type(found.value) is not int:
        raise _refused(f"{path} must be a whole number", path)
    if found.value > most:
        raise _refused(
            f"{path} is {found.value}, and the policy {policy!r} allows at most {most} tokens of "
            "answer",
            path,
        )
    return True


def _find(body: bytes, path: str) -> _Found | None:
    outer, _, inner = path.rpartition(".")
    start, end = 0, len(body)
    if outer:
        around = _member(body, outer, path)
        if around is None or body[around.start : around.start + 1] != b"{":
            return None
        start, end = around.start, around.end
    member = _member(body[start:end], inner, path)
    if member is None:
        return None
    value = msgspec.json.decode(body[start + member.start : start + member.end])
    return _Found(path, value, start + member.start, start + member.end)


def _member(data: bytes, name: str, path: str) -> Member | None:
    if name.encode() not in data and b"\\u" not in data:
        return None
    try:
        members = find_members(data, name)
    except TooManyError as error:
        raise RequestRefusedError(400, "ambiguous_body", str(error), param=path) from None
    if len(members) > 1:
        message = f"the body has the member {name} more than once"
        raise RequestRefusedError(400, "ambiguous_body", message, param=path)
    return members[0] if members else None


def _told(body: bytes, path: str, most: int) -> bytes:
    """The body with ``most`` as the member at ``path``, which is not there or null."""
    outer, _, inner = path.rpartition(".")
    here = _find(body, path)
    if here is not None:
        return b"%b%d%b" % (body[: here.start], most, body[here.end :])
    value = b"%d" % most
    if outer:
        around = _member(body, outer, path)
        if around is not None and body[around.start : around.start + 1] == b"{":
            return _inserted(body, around.start, inner, value)
        value = b'{"%b":%b}' % (inner.encode(), value)
        if around is not None:  # null stands for an object here
            return b"".join((body[: around.start], value, body[around.end :]))
    return _inserted(body, body.index(b"{"), outer or inner, value)


def _inserted(body: bytes, brace: int, name: str, value: bytes) -> bytes:
    """The body with one more member at the beginning of the object that begins at ``brace``."""
    rest = body[brace + 1 :]
    comma = b"" if rest.lstrip()[:1] == b"}" else b","
    return b'%b{"%b":%b%b%b' % (body[:brace], name.encode(), value, comma, rest)


def _refused(message: str, param: str | None = None) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", message, param=param)
