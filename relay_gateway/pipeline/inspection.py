"""Which model a request body names, found on the way past: the body itself is never changed.

A body is looked at strictly where it is known to name a model: what cannot be read is then refused,
because a policy could not be applied to it. Elsewhere only what is certain counts.
"""

from __future__ import annotations

import re
from typing import Final

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.content_decoder import (
    ContentDecoder,
    UndecodableError,
    decoder_for,
    is_encoded,
)
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.body import check_model, read_model
from relay_gateway.pipeline.form import boundary_of, read_form
from relay_gateway.pipeline.model_scan import ModelScan

MAX_DECODED: Final = 8 * 1024 * 1024
"""How much of an encoded request is decoded to look for its model."""
MAX_FORM: Final = 1024 * 1024
"""How far into a form its field ``model`` is looked for."""

_FIELD = re.compile(
    rb'\r\n(?i:content-disposition:[ \t]*form-data;)[ \t]*name="?model"?\r\n'
    rb"(?:[^\r\n]+\r\n)*\r\n([^\r\n]*)\r\n"
)
_LIKE_MODEL = re.compile(rb'name\*?[ \t]*=[ \t]*"?[ \t]*model\b', re.IGNORECASE)
_OVERLAP: Final = 64


class Inspection:
    """What looks at one body. This one looks at nothing: for bodies that name no model."""

    model: str | None = None

    def whole(self, body: bytes) -> None:
        """Looks at a body that is here. Raises :class:`RequestRefusedError`."""

    def feed(self, data: bytes) -> None:
        """Looks at a piece of one that is coming. Raises :class:`RequestRefusedError`."""

    def finish(self) -> None:
        """That was the last piece. Raises :class:`RequestRefusedError`."""


class JsonInspection(Inspection):
    """Looks for a member ``model`` at the top level."""

    def __init__(self, decoder: ContentDecoder | None, *, strict: bool) -> None:
        self._decoder = decoder
        self._strict = strict
        self._scan: ModelScan | None = ModelScan()

    def whole(self, body: bytes) -> None:
        try:
            self.model = read_model(self._decoded(body))
        except RequestRefusedError as error:
            self._give_up(error)

    def feed(self, data: bytes) -> None:
        if self._scan is None:
            return
        try:
            self._scan.feed(self._decoded(data))
            self.model = self._scan.model
        except RequestRefusedError as error:
            self._give_up(error)

    def finish(self) -> None:
        if self._scan is not None:
            try:
                self._scan.finish()
            except RequestRefusedError as error:
                self._give_up(error)

    def _decoded(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        try:
            return self._decoder.feed(data)
        except UndecodableError as error:
            message = f"the model of this request cannot be read: {error}"
            raise RequestRefusedError(415, "unsupported_media_type", message) from error

    def _give_up(self, error: RequestRefusedError) -> None:
        self._scan = None
        if self._strict or error.code == "ambiguous_body":
            raise error


class FormInspection(Inspection):
    """Looks for the field ``model``. In a form that is not held it has to come within the first
    ``MAX_FORM`` bytes, before large files, and nothing like it may follow."""

    def __init__(self, boundary: bytes) -> None:
        self._boundary = boundary
        self._seen = b""
        self._ended = False

    def whole(self, body: bytes) -> None:
        self.model = read_form(body, self._boundary).model

    def feed(self, data: bytes) -> None:
        self._seen += data
        if self._ended:
            if _LIKE_MODEL.search(self._seen) is not None:
                raise _repeated()
            self._seen = self._seen[-_OVERLAP:]
        elif len(self._seen) >= MAX_FORM:
            self.finish()

    def finish(self) -> None:
        if self._ended:
            return
        self._ended = True
        found = _FIELD.findall(self._seen)
        if len(found) != len(_LIKE_MODEL.findall(self._seen)) or len(found) > 1:
            raise _repeated()
        name = found[0].decode("utf-8", "replace") if found else ""
        check_model(name)
        self.model, self._seen = name, b""


def _repeated() -> RequestRefusedError:
    message = "the form has the field model more than once, or in another spelling"
    return RequestRefusedError(400, "ambiguous_body", message, param="model")


def inspection_of(headers: Headers, beginning: bytes, *, strict: bool) -> Inspection:
    """What looks at a body that begins so. Raises :class:`RequestRefusedError` (415) where it must
    be looked at and is in an encoding that cannot be read here."""
    encoding = headers.get(b"content-encoding")
    content_type = headers.get(b"content-type")
    media = (content_type or b"").partition(b";")[0].strip().lower()
    is_json = media == b"application/json" or media.endswith(b"+json")
    decoder = None
    if is_encoded(encoding):
        decoder = decoder_for(encoding, MAX_DECODED)
        if decoder is None:
            return _unreadable(encoding or b"", strict=strict)
    elif media == b"multipart/form-data":
        boundary = boundary_of(content_type) if strict else None
        return Inspection() if boundary is None else FormInspection(boundary)
    elif beginning.lstrip()[:1] == b"{":
        is_json = True
    return JsonInspection(decoder, strict=strict) if strict or is_json else Inspection()


def _unreadable(encoding: bytes, *, strict: bool) -> Inspection:
    if strict:
        name = encoding.decode("latin-1")[:64]
        message = f"the model of a request with Content-Encoding {name!r} cannot be read here"
        raise RequestRefusedError(415, "unsupported_media_type", message)
    return Inspection()
