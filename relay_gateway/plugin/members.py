"""Reads the members of JSON objects one by one, so that what nobody read can be named at the end.

Codecs read requests with it: every member is taken by somebody, or turns up in :meth:`Members.left`
under the path at which the caller wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from relay_gateway.errors import RequestRefusedError

_TYPES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def refuse(path: str, problem: str) -> RequestRefusedError:
    """The refusal (400) of a request for what is at ``path``; ``problem`` goes on from its name."""
    return RequestRefusedError(400, "invalid_request", f"{path} {problem}", param=path)


def parse_object(body: bytes) -> Members:
    """The members of a request body; raises :class:`RequestRefusedError` (400)."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise RequestRefusedError(
            400, "invalid_request", f"the body is not valid JSON: {error}"
        ) from None
    if not isinstance(value, dict):
        raise RequestRefusedError(400, "invalid_request", "the body must be a JSON object")
    return Members(value, "")


class Members:
    """The members of one JSON object. A member that is ``null`` counts as absent.

    ``path`` is where the object stands, ``""`` for the body itself. The object is not changed. The
    methods raise :class:`RequestRefusedError` (400) for a value of another type than asked for.
    """

    __slots__ = ("_left", "path")

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(path, "an object", value)
        self._left: dict[str, Any] = dict(value)
        self.path = path

    def at(self, name: str) -> str:
        """Where the member ``name`` stands."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether ``name`` is there, was not taken and is not ``null``."""
        return self._left.get(name) is not None

    def peek(self, name: str) -> Any:
        """The value of ``name``, which stays to be taken."""
        return self._left.get(name)

    def take(self, name: str) -> Any:
        """The value of ``name``, whatever it is; ``None`` when it is absent."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(self.at(name), "a string", value)
        return value

    def required(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            raise refuse(self.at(name), "is missing; it must be a string")
        return value

    def one_of(self, name: str, *words: str) -> str | None:
        """One of ``words``; refuses every other string, as nobody knows what it would mean."""
        value = self.text(name)
        if value is not None and value not in words:
            raise refuse(self.at(name), f"is {value[:40]!r}; it can be {', '.join(words)}")
        return value

    def flag(self, name: str) -> bool | None:
        """``True`` or ``False``."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise _wrong(self.at(name), "true or false", value)
        return value

    def integer(self, name: str) -> int | None:
        """An integer, or a number that is one."""
        value = self.take(name)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if value is not None and type(value) is not int:
            raise _wrong(self.at(name), "an integer", value)
        return value

    def number(self, name: str) -> float | None:
        """A number."""
        value = self.take(name)
        if value is None or type(value) is int or isinstance(value, float):
            return value
        raise _wrong(self.at(name), "a number", value)

    def array(self, name: str) -> list[Any]:
        """A list; empty when it is absent."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise _wrong(self.at(name), "a list", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.array(name)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise _wrong(f"{self.at(name)}[{index}]", "a string", value)
        return tuple(values)

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object as it is, for what is carried without being looked into."""
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise _wrong(self.at(name), "an object", value)
        return value

    def child(self, name: str) -> Members | None:
        """The members of an object."""
        value = self.take(name)
        return None if value is None else Members(value, self.at(name))

    def children(self, name: str) -> Iterator[Members]:
        """The members of each object in a list."""
        for index, value in enumerate(self.array(name)):
            yield Members(value, f"{self.at(name)}[{index}]")

    def left(self) -> dict[str, Any]:
        """What was not taken and is not ``null``."""
        return {name: value for name, value in self._left.items() if value is not None}

    def rest(self) -> dict[str, Any]:
        """Everything that was not taken, ``null`` too."""
        return dict(self._left)


def _wrong(path: str, wanted: str, value: object) -> RequestRefusedError:
    found = _TYPES.get(type(value), "something else")
    return refuse(path or "the body", f"must be {wanted}, not {found}")
