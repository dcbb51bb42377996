"""Multipart form bodies: read for the two fields that routing needs, forwarded as received.

Files are skipped, not decoded: what is looked at are delimiters, the headers of parts, and the
fields ``model`` and ``stream`` (RFC 2046 §5.1, RFC 7578). Form parsers differ in what they forgive,
so nothing is forgiven here: a body that another parser might read otherwise is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.body import check_model

MAX_PARTS: Final = 256
MAX_PART_HEADERS: Final = 8 * 1024
"""Bytes of headers that one part may have."""
MAX_BOUNDARY: Final = 70

_MULTIPART: Final = b"multipart/form-data"
_END_OF_HEADERS: Final = b"\r\n\r\n"
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAMETER = re.compile(
    rb'[ \t]*;[ \t]*(%b)=(?:"([^"\r\n]*)"|(%b))[ \t]*' % (_TOKEN, _TOKEN), re.DOTALL
)
_LINE = re.compile(rb"(%b):[ \t]*([^\r\n]*)" % _TOKEN)
_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]*[0-9A-Za-z'()+_,\-./:=?]")
_READ = frozenset({b"model", b"stream"})
_FLAGS = {b"true": True, b"1": True, b"false": False, b"0": False}
_CHARSETS = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_PLAIN_ENCODINGS = (b"7bit", b"8bit", b"binary")


class Form(msgspec.Struct, frozen=True):
    """What routing needs to know of a form; ``start`` and ``end`` bound the value of ``model``."""

    boundary: bytes
    model: str
    stream: bool
    start: int
    end: int


class _Part(NamedTuple):
    """One part: its headers, and where its content begins and ends."""

    headers: dict[bytes, bytes]
    start: int
    end: int


class _Field(NamedTuple):
    name: bytes
    part: _Part
    has_file: bool


def boundary_of(content_type: bytes | None) -> bytes | None:
    """The boundary that a content type names, ``None`` where it is no form's.

    Raises :class:`RequestRefusedError` (400) for a form without a usable one.
    """
    if content_type is None:
        return None
    media, semicolon, rest = content_type.partition(b";")
    if media.strip().lower() != _MULTIPART:
        return None
    boundary = _parameters(semicolon + rest, "the content type").get(b"boundary", b"")
    if len(boundary) > MAX_BOUNDARY or not _BOUNDARY.fullmatch(boundary):
        _refuse(f"the content type must name a boundary of 1 to {MAX_BOUNDARY} characters")
    return boundary


def read_form(body: bytes, boundary: bytes) -> Form:
    """``model`` and ``stream`` of a form. Raises :class:`RequestRefusedError` (400) for a body that
    is no form, names one of them twice or in another spelling, or has no model."""
    found: dict[bytes, _Field] = {}
    for part in _parts(body, boundary):
        field = _field(part)
        name = _meant(field.name)
        if name == b"_charset_":
            _check_charset(body[part.start : part.end])
        if name not in _READ:
            continue
        if name in found or field.name != name:
            raise _ambiguous(name.decode(), "more than once or in another spelling")
        found[name] = field
    if b"model" not in found:
        raise _refusal("the form must name a model", "model")
    part = found[b"model"].part
    model = _text(body, found[b"model"])
    check_model(model)
    stream = b"stream" in found and _flag(_text(body, found[b"stream"]))
    return Form(boundary, model, stream, part.start, part.end)


def replace_form_model(body: bytes, form: Form, name: str) -> bytes:
    """The form with ``name`` as its ``model``; all else stays as it was, byte for byte."""
    value = name.encode()
    if b"--" + form.boundary in value:
        _refuse("the boundary of the form is part of the name of the model")
    return b"".join((body[: form.start], value, body[form.end :]))


def _parts(body: bytes, boundary: bytes) -> Iterator[_Part]:
    """The parts in order. Every place where the boundary follows two hyphens must be a delimiter:
    some parsers would take others for one."""
    mark = b"--" + boundary
    if not body.startswith(mark):
        _refuse("the form must begin with its boundary")
    place = 0
    for _ in range(MAX_PARTS + 1):
        after = place + len(mark)
        if body.startswith(b"--", after):
            if body[after + 2 : after + 5] not in (b"", b"\r\n"):
                _refuse("the form goes on after its last boundary")
            return
        if not body.startswith(b"\r\n", after):
            raise _ambiguous("boundary", "in a place where it delimits nothing")
        following = body.find(mark, after)
        if following < 0:
            _refuse("the form breaks off before its last boundary")
        yield _part(body, after + 2, following - 2)
        place = following
    raise _ambiguous("parts", f"more than {MAX_PARTS} times")


def _part(body: bytes, start: int, end: int) -> _Part:
    if body[end : end + 2] != b"\r\n":
        raise _ambiguous("boundary", "in the middle of a line")
    most = min(end, start + MAX_PART_HEADERS)
    split = body.find(_END_OF_HEADERS, start, most)
    if split < 0:
        _refuse(f"a part of the form has no headers, or more than {MAX_PART_HEADERS} bytes of them")
    headers: dict[bytes, bytes] = {}
    for line in body[start:split].split(b"\r\n"):
        match = _LINE.fullmatch(line)
        if match is None or match[1].lower() in headers:
            _refuse("a part of the form has headers that are malformed or repeated")
        headers[match[1].lower()] = match[2].strip()
    return _Part(headers, split + len(_END_OF_HEADERS), end)


def _field(part: _Part) -> _Field:
    kind, semicolon, rest = part.headers.get(b"content-disposition", b"").partition(b";")
    if kind.strip().lower() != b"form-data":
        _refuse("each part of the form must have a content-disposition of form-data")
    parameters = _parameters(semicolon + rest, "a content-disposition of the form")
    name = parameters.get(b"name", b"")
    # Some parsers take a backslash for an escape, and some decode name* and prefer it.
    if not name or not name.isascii() or b"\\" in name or b"name*" in parameters:
        _refuse("each part of the form must have one name in plain ASCII characters")
    has_file = b"filename" in parameters or b"filename*" in parameters
    return _Field(name, part, has_file)


def _parameters(text: bytes, where: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    place = 0
    while place < len(text):
        match = _PARAMETER.match(text, place)
        if match is None:
            _refuse(f"the parameters of {where} are malformed")
        name, quoted, plain = match[1].lower(), match[2], match[3]
        # An escaped quote ends the value for one parser and not for another.
        if name in found or (quoted is not None and quoted.endswith(b"\\")):
            raise _ambiguous(name.decode(), f"more than once, or with an escaped quote, in {where}")
        found[name] = plain if quoted is None else quoted
        place = match.end()
    return found


def _meant(name: bytes) -> bytes:
    """What a lenient parser may take ``name`` for: spaces, case and ``[]`` do not count for all."""
    return name.partition(b"[")[0].strip().lower()


def _text(body: bytes, field: _Field) -> str:
    """The value of a field that is read here; it must mean the same to everybody."""
    name = field.name.decode()
    kind, semicolon, rest = field.part.headers.get(b"content-type", b"text/plain").partition(b";")
    encoding = field.part.headers.get(b"content-transfer-encoding", b"binary").lower()
    plain = kind.strip().lower() == b"text/plain" and encoding in _PLAIN_ENCODINGS
    if field.has_file or not plain:
        raise _refusal(f"{name} must be a plain field of the form, not a file", name)
    _check_charset(_parameters(semicolon + rest, f"the type of {name}").get(b"charset", b"utf-8"))
    try:
        return body[field.part.start : field.part.end].decode()
    except UnicodeDecodeError:
        raise _refusal(f"{name} is not UTF-8", name) from None


def _flag(value: str) -> bool:
    flag = _FLAGS.get(value.lower().encode())
    if flag is None:
        raise _refusal("stream must be true or false", "stream")
    return flag


def _check_charset(charset: bytes) -> None:
    if charset.lower() not in _CHARSETS:
        _refuse("the fields of the form must be in UTF-8")


def _refuse(message: str) -> NoReturn:
    raise _refusal(message)


def _refusal(message: str, param: str | None = None) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", message, param=param)


def _ambiguous(what: str, how: str) -> RequestRefusedError:
    return RequestRefusedError(400, "ambiguous_body", f"the form has {what} {how}", param=what)
