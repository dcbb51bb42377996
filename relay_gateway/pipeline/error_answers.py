"""What may be shown of an upstream's error: readable, and without the credential it may echo."""

from __future__ import annotations

from typing import Final

import msgspec

from relay_gateway.http.content_decoder import UndecodableError, decoder_for, is_encoded
from relay_gateway.http.message import Headers
from relay_gateway.redaction import scrub_value
from relay_gateway.secret import Secret

MASK: Final = "***"
MAX_DECODED: Final = 256 * 1024
_ENCODING: Final = b"content-encoding"


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Headers and body of an error. One that is not ``legible`` cannot be looked into, and its body
    is not to be shown."""

    headers: Headers
    body: bytes
    legible: bool = True


def shown_error(headers: Headers, body: bytes, secret: Secret | None) -> ErrorAnswer:
    """The error without ``secret``, its first and last characters included, and decoded."""
    headers = _scrubbed_headers(headers, secret)
    encoding = headers.get(_ENCODING)
    if not is_encoded(encoding):
        return ErrorAnswer(headers, scrubbed(body, secret))
    plain = Headers([field for field in headers.fields if field[0].lower() != _ENCODING])
    decoder = decoder_for(encoding, MAX_DECODED)
    if decoder is None:
        return ErrorAnswer(plain, b"", legible=False)
    try:
        return ErrorAnswer(plain, scrubbed(decoder.feed(body), secret))
    except UndecodableError:
        return ErrorAnswer(plain, b"", legible=False)


def scrubbed(body: bytes, secret: Secret | None) -> bytes:
    """``body`` without ``secret``, and without its first and last characters."""
    if secret is None:
        return body
    text = body.decode("utf-8", "surrogateescape")
    return scrub_value(text, secret.reveal(), MASK).encode("utf-8", "surrogateescape")


def _scrubbed_headers(headers: Headers, secret: Secret | None) -> Headers:
    values = b"\n".join([value for _, value in headers.fields])
    if scrubbed(values, secret) == values:
        return headers
    return Headers([(name, scrubbed(value, secret)) for name, value in headers.fields])
