"""Request bodies: read for the two members that routing needs, and spliced where they must change.

A body is decoded once, partially, and forwarded as it was received. Duplicate or case-variant
``model`` members are refused, because parsers disagree on which one counts; so are duplicates of
the members that decide whether an answer is a stream and tells what it used.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.accounted_members import are_all, decode_all, decode_usual
from relay_gateway.pipeline.members import Member, TooManyError, find_members, spelling_of
from relay_gateway.plugin.wire import UsageOption

MAX_MODEL_BYTES = 256


Members = Mapping[str, msgspec.Raw]
"""The members of a body by name, each of which is there once."""

_SMALL = 160 * 1024

_ANY_CASE = re.compile(rb'"model"', re.IGNORECASE)
_ANY_SPELLING = spelling_of("model", any_case=True)
_LETTER = re.compile(rb"\\u00[4-7]")
_MODEL_VALUE = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_DECODED_AT_ONCE = 64 * 1024


def read_members(data: bytes, small: int = _SMALL) -> tuple[str, bool, Members | None]:
    """``model`` and ``stream`` of a request body, and all of its members where no search was needed
    to know them; raises :class:`RequestRefusedError` (400). Up to ``small`` bytes unusual members
    are told apart, too."""
    model, stream, members = _read(data, small)
    if model is msgspec.UNSET:
        raise _refused("the body must name a model", "model")
    if not isinstance(model, str):
        raise _refused(f"model must be a string, not {_json_type(model)}", "model")
    check_model(model)
    if stream is not None and not isinstance(stream, bool):
        raise _refused(f"stream must be true or false, not {_json_type(stream)}", "stream")
    return model, stream is True, members


def check_model(model: str) -> None:
    """Raises :class:`RequestRefusedError` (400) for what cannot be the name of a model."""
    if not model or len(model.encode()) > MAX_MODEL_BYTES or not model.isprintable():
        raise _refused("model must have 1 to 256 bytes and no control characters", "model")


def read_model(data: bytes) -> str | None:
    """``model`` of a body that may do without; raises as :func:`read_members`."""
    if _read(data, _SMALL)[0] is not msgspec.UNSET:
        return read_members(data)[0]
    others = _find(data, "model", any_case=True)
    if others:
        raise _ambiguous("model", others)
    return None


def _read(data: bytes, small: int) -> tuple[Any, Any, Members | None]:
    """Both values, as they are, and all members where they are known."""
    members: dict[str, msgspec.Raw] = _decode(
        decode_all if len(data) <= small else decode_usual, data
    )
    known = are_all(data, members)
    if known:
        for name in members:
            if len(name) == 5 and name != "model" and name.lower() == "model":
                known = False
    if not known:
        _refuse_ambiguity(data)
    model, stream = members.get("model"), members.get("stream")
    return (
        msgspec.UNSET if model is None else msgspec.json.decode(model),
        None if stream is None else msgspec.json.decode(stream),
        members if known else None,
    )


def _decode(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        members = decode(data)
    except msgspec.ValidationError:
        raise _refused("the body must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise _refused("the body is nested too deeply") from None
    if not data.isascii():
        _refuse_foreign_encoding(data)
    return members


def replace_model(data: bytes, name: str) -> bytes:
    """The body with ``name`` as its ``model``; everything else stays as it was, byte for byte."""
    value = msgspec.json.encode(name)
    if data.count(b'"model"') == 1 and not _has_escaped_letter(data):
        match = _MODEL_VALUE.match(data, data.index(b'"model"') + 7)
        if match is not None:
            return b"".join((data[: match.start(1)], value, data[match.end(1) :]))
    member = _find(data, "model")[0]
    return b"".join((data[: member.start], value, data[member.end :]))


def ask_for_usage(
    data: bytes, option: UsageOption, known: Members | None = None
) -> tuple[bytes, bool]:
    """The body with the usage option set, and whether the caller had not set it himself; ``known``
    are its members, where that is so.

    Raises :class:`RequestRefusedError` (400) where he set it twice, or to what is no object.
    """
    members: list[Member] = []
    if option.member in known if known is not None else _may_have(data, option.member):
        members = _find(data, option.member)
    if not members:
        asked = b'"%b":{"%b":true},' % (option.member.encode(), option.flag.encode())
        start = data.index(b"{") + 1
        return b"".join((data[:start], asked, data[start:])), True
    if len(members) > 1:
        raise _ambiguous(option.member, members)
    start, end = members[0].start, members[0].end
    given = msgspec.json.decode(data[start:end])
    if given is not None and not isinstance(given, dict):
        raise _refused(f"{option.member} must be an object", option.member)
    options = given or {}
    if options.get(option.flag) is True:
        return data, False
    value = msgspec.json.encode({**options, option.flag: True})
    return b"".join((data[:start], value, data[end:])), True


def _may_have(data: bytes, name: str) -> bool:
    return name.encode() in data or _has_escaped_letter(data)


def _refuse_foreign_encoding(data: bytes) -> None:
    """Refuses what is not UTF-8; the decoder does not look at strings that it skips."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _DECODED_AT_ONCE):
            decoder.decode(data[start : start + _DECODED_AT_ONCE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _refused(f"the body is not valid JSON: it is not UTF-8 ({error.reason})") from None


def _refuse_ambiguity(data: bytes) -> None:
    # One "model" in whatever case and no escape that could spell a letter of it: that is the member
    # itself. A search for one character is a hundred times faster than any other, so it goes first.
    escaped = _has_escaped_letter(data)
    if _matches_twice(_ANY_SPELLING if escaped else _ANY_CASE, data):
        members = _find(data, "model", any_case=True)
        if len(members) > 1 or (members and members[0].name != "model"):
            raise _ambiguous("model", members)
    if escaped or data.count(b'"stream"') > 1:
        members = _find(data, "stream")
        if len(members) > 1:
            raise _ambiguous("stream", members)


def _matches_twice(pattern: re.Pattern[bytes], data: bytes) -> bool:
    first = pattern.search(data)
    return first is not None and pattern.search(data, first.end()) is not None


def _has_escaped_letter(data: bytes) -> bool:
    return b"\\" in data and _LETTER.search(data) is not None


def _find(data: bytes, name: str, *, any_case: bool = False) -> list[Member]:
    try:
        return find_members(data, name, any_case=any_case)
    except TooManyError as error:
        raise RequestRefusedError(400, "ambiguous_body", str(error), param=name) from None


def _ambiguous(name: str, members: list[Member]) -> RequestRefusedError:
    found = ", ".join(member.name for member in members[:10])
    message = f"the body has the member {name} more than once or in another case: {found}"
    return RequestRefusedError(400, "ambiguous_body", message, param=name)


def _refused(message: str, param: str | None = None) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", message, param=param)


def _json_type(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return (
        "null"
        if value is None
        else names.get(type(value), "an object" if isinstance(value, dict) else "a string")
    )
