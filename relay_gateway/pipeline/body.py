"""Request bodies: read for the two members that routing needs, and spliced where they must change.

A body is decoded once, partially, and forwarded as it was received. Duplicate or case-variant
``model`` members are refused, because parsers disagree on which one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.plugin.wire import UsageOption

MAX_MODEL_BYTES = 256


class _Members(msgspec.Struct):
    model: Any = msgspec.UNSET
    stream: Any = None


_decode = msgspec.json.Decoder(_Members).decode

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_ANY_CASE = re.compile(rb'"model"', re.IGNORECASE)
_LETTER = re.compile(rb"\\u00[46]")
_MODEL_VALUE = re.compile(rb'\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Member:
    """A member at the top level of a JSON object; ``start`` and ``end`` bound its value."""

    name: str
    start: int
    end: int


def read_members(data: bytes) -> tuple[str, bool]:
    """``model`` and ``stream`` of a request body; raises :class:`RequestRefusedError` (400)."""
    try:
        members = _decode(data)
    except msgspec.ValidationError:
        raise _refused("the body must be a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise _refused("the body is nested too deeply") from None
    _refuse_ambiguity(data)
    model = members.model
    if model is msgspec.UNSET:
        raise _refused("the body must name a model", "model")
    if not isinstance(model, str):
        raise _refused(f"model must be a string, not {_json_type(model)}", "model")
    if not model or len(model.encode()) > MAX_MODEL_BYTES or not model.isprintable():
        raise _refused("model must have 1 to 256 bytes and no control characters", "model")
    stream = members.stream
    if stream is not None and not isinstance(stream, bool):
        raise _refused(f"stream must be true or false, not {_json_type(stream)}", "stream")
    return model, stream is True


def replace_model(data: bytes, name: str) -> bytes:
    """The body with ``name`` as its ``model``; everything else stays as it was, byte for byte."""
    value = msgspec.json.encode(name)
    if data.count(b'"model"') == 1:
        match = _MODEL_VALUE.match(data, data.index(b'"model"') + 7)
        if match is not None:
            return b"".join((data[: match.start(1)], value, data[match.end(1) :]))
    member = next(member for member in top_level(data) if member.name == "model")
    return b"".join((data[: member.start], value, data[member.end :]))


def ask_for_usage(data: bytes, option: UsageOption) -> tuple[bytes, bool]:
    """The body with the usage option set, and whether the caller had not set it himself."""
    member = None
    if option.member.encode() in data:
        member = next((m for m in top_level(data) if m.name == option.member), None)
    if member is None:
        asked = b'"%b":{"%b":true},' % (option.member.encode(), option.flag.encode())
        start = data.index(b"{") + 1
        return b"".join((data[:start], asked, data[start:])), True
    given = msgspec.json.decode(data[member.start : member.end])
    if given is not None and not isinstance(given, dict):
        raise _refused(f"{option.member} must be an object", option.member)
    options = given or {}
    if options.get(option.flag) is True:
        return data, False
    value = msgspec.json.encode({**options, option.flag: True})
    return b"".join((data[: member.start], value, data[member.end :])), True


def top_level(data: bytes) -> Iterator[Member]:
    """The members of a valid JSON object with the bounds of their values, escapes in names
    resolved."""
    depth = 0
    name: str | None = None
    string = b""
    start = 0
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in b"{[":
            depth += 1
        elif token in b"}]" or (token == b"," and depth == 1):
            if token != b",":
                depth -= 1
            if name is not None and depth == (1 if token == b"," else 0):
                yield Member(name, start, _trimmed(data, start, match.start()))
                name = None
        elif depth == 1 and token == b":":
            name = msgspec.json.decode(string, type=str)
            start = match.end()
            while data[start] in b" \t\r\n":
                start += 1
        elif depth == 1 and name is None:
            string = token


def _trimmed(data: bytes, start: int, end: int) -> int:
    while end > start and data[end - 1] in b" \t\r\n":
        end -= 1
    return end


def _refuse_ambiguity(data: bytes) -> None:
    # One "model" in whatever case and no escape that could spell a letter of it: that is the member
    # itself. A search for one character is a hundred times faster than any other, so it goes first.
    if len(_ANY_CASE.findall(data)) <= 1 and not (b"\\" in data and _LETTER.search(data)):
        return
    names = [member.name for member in top_level(data) if member.name.casefold() == "model"]
    if len(names) > 1 or (names and names[0] != "model"):
        raise RequestRefusedError(
            400,
            "ambiguous_body",
            f"the body names the model more than once or in another case: {', '.join(names)}",
            param="model",
        )


def _refused(message: str, param: str | None = None) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", message, param=param)


def _json_type(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", list: "an array"}
    return (
        "null"
        if value is None
        else names.get(type(value), "an object" if isinstance(value, dict) else "a string")
    )
