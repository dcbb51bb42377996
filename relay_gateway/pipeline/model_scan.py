"""Finding ``model`` in a JSON body that passes by, without holding it.

What is judged are members at the top level, by the same rules as in a body that is whole: a second
``model``, or one in another case, is refused. The judgement is complete before the last piece goes
on, so that no upstream gets a whole request whose model was not seen.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.body import MAX_MODEL_BYTES, check_model

MAX_TOKENS: Final = 1_000_000
"""How many brackets and strings are looked at: about half a second of work in all. Large bodies
are large because of long strings, not of many."""

_MAX_SPELLED: Final = 6 * MAX_MODEL_BYTES
"""The longest text that is kept of a string, each character escaped."""
_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_DEEP = re.compile(rb'[^"{}\[\]]*')
_TOP = re.compile(rb'[^"{}\[\],:]*')
_SPACE: Final = b" \t\r\n"


class ModelScan:
    """Scans one body, fed in arbitrary pieces; ``model`` is what it names so far."""

    __slots__ = (
        "_cut",
        "_depth",
        "_in_string",
        "_kept",
        "_key",
        "_over",
        "_tokens",
        "_value_due",
        "model",
    )

    def __init__(self) -> None:
        self.model: str | None = None
        self._depth = 0
        self._tokens = 0
        self._in_string = self._value_due = self._over = False
        self._key: str | None = None
        self._kept: bytes | None = None
        # The backslash of an escape that was cut: read together with what it escapes.
        self._cut = b""

    def feed(self, data: bytes) -> None:
        """Looks at a piece. Raises :class:`RequestRefusedError` (400)."""
        if self._cut:
            data, self._cut = self._cut + data, b""
        position, size = 0, len(data)
        while position < size:
            position = (self._string if self._in_string else self._structure)(data, position)

    def finish(self) -> None:
        """The body has ended. Raises :class:`RequestRefusedError` (400) for an incomplete one."""
        if not self._over:
            raise _refused("the body is not a complete JSON object")

    def _structure(self, data: bytes, position: int) -> int:
        """Reads up to the next character that matters, and that one."""
        if self._depth == 0:
            return self._outside(data, position)
        top = self._depth == 1
        found = (_TOP if top else _DEEP).match(data, position)
        end = found.end() if found is not None else position
        if top and self._awaits_model and data[position:end].strip(_SPACE):
            raise _refused("model must be a string")
        if end == len(data):
            return end
        self._count()
        self._take(data[end])
        return end + 1

    def _outside(self, data: bytes, position: int) -> int:
        rest = data[position:].lstrip(_SPACE)
        if not rest:
            return len(data)
        if self._over or rest[0] != ord("{"):
            raise _refused("the body must be one JSON object")
        self._depth = 1
        return len(data) - len(rest) + 1

    @property
    def _awaits_model(self) -> bool:
        return self._value_due and self._key == "model"

    def _take(self, character: int) -> None:
        if character == ord('"'):
            self._in_string = True
            self._kept = b"" if self._depth == 1 else None
        elif character in b"{[":
            if self._depth == 1 and self._awaits_model:
                raise _refused("model must be a string")
            self._depth += 1
        elif character in b"}]":
            self._depth -= 1
            self._over = self._depth == 0
        elif character == ord(":"):
            self._value_due = True
        else:
            self._value_due, self._key = False, None

    def _string(self, data: bytes, position: int) -> int:
        """Reads up to the end of the string that has begun."""
        found = _STRING.match(data, position)
        end = found.end() if found is not None else position
        if self._kept is not None:
            self._kept = self._kept[: _MAX_SPELLED + 1] + data[position:end][: _MAX_SPELLED + 1]
        if end == len(data):
            return end
        if data[end] != ord('"'):
            self._cut = data[end:]
            return len(data)
        self._in_string = False
        self._end_string()
        return end + 1

    def _end_string(self) -> None:
        kept, self._kept = self._kept, None
        if kept is None:
            return
        if not self._value_due:
            self._key = key = None if len(kept) > _MAX_SPELLED else _text(kept)
            if key is not None and key.lower() == "model" and (key != "model" or self.model):
                raise _ambiguous()
        elif self._key == "model":
            if self.model is not None:
                raise _ambiguous()
            self.model = _model(kept)

    def _count(self) -> None:
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise _refused(
                f"the body has more than {MAX_TOKENS} brackets and strings, too many to be looked "
                "through for its model"
            )


def _text(spelled: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % spelled, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(f"the body is not valid JSON: {error}") from None


def _model(spelled: bytes) -> str:
    name = _text(spelled) if len(spelled) <= _MAX_SPELLED else ""
    check_model(name)
    return name


def _refused(message: str) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", message, param="model")


def _ambiguous() -> RequestRefusedError:
    message = "the body has the member model more than once or in another case"
    return RequestRefusedError(400, "ambiguous_body", message, param="model")
