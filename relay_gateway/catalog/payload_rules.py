"""What is taken out of payloads before they are stored, and which of their headers are kept: rules
as an operator writes them, checked and compiled.

A rule that begins with ``/`` is a JSON pointer (RFC 6901), in which ``*`` stands for every member
or element and ``-`` for every element. Any other is a pattern in the syntax of RE2, which takes
time in proportion to the text, whatever the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Protocol

import msgspec
from pydantic_core import PydanticCustomError

Pointer = tuple[str, ...]
Span = tuple[int, int]

NEVER_KEPT: Final = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "cookie",
        "cookie2",
        "set-cookie",
        "set-cookie2",
        "www-authenticate",
        "proxy-authenticate",
        "x-amz-security-token",
        "x-forwarded-authorization",
    }
)
"""Header fields that carry credentials."""
_CREDENTIAL: Final = re.compile(r"api[-_.]?key|authori[sz]ation|cookie|secret|password|token$")
_FIELD_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_MAX_PROGRAM: Final = 8 * 1024 * 1024


class Pattern(Protocol):
    """A compiled pattern."""

    def spans(self, text: str) -> Iterator[Span]:
        """Where ``text`` matches, from left to right."""


class RedactionRules(msgspec.Struct, frozen=True):
    """Compiled rules. What a pointer leads to is hidden whole, of a pattern what matches."""

    pointers: tuple[Pointer, ...] = ()
    patterns: tuple[Pattern, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pointers or self.patterns)


def check_rule(rule: str) -> str:
    """``rule``, if it is one; no problem quotes it. Raises :class:`PydanticCustomError`."""
    if rule.startswith("/"):
        _pointer(rule)
    else:
        _pattern(rule)
    return rule


def check_header(name: str) -> str:
    """``name`` in lower case, if headers of that name may be kept. Raises
    :class:`PydanticCustomError`."""
    if _FIELD_NAME.fullmatch(name) is None:
        raise PydanticCustomError("header_name_invalid", "must be the name of a header")
    if is_credential(name):
        raise PydanticCustomError(
            "credential_header", "names a header that carries credentials, which are never kept"
        )
    return name.lower()


def is_credential(name: str) -> bool:
    """Whether a header of this name carries credentials, or sounds as if it did."""
    lower = name.lower()
    return lower in NEVER_KEPT or _CREDENTIAL.search(lower) is not None


@lru_cache(maxsize=16)
def compile_rules(rules: tuple[str, ...]) -> RedactionRules:
    """``rules`` for use; each has been checked. Raises as :func:`check_rule`."""
    return RedactionRules(
        tuple(_pointer(rule) for rule in rules if rule.startswith("/")),
        tuple(_pattern(rule) for rule in rules if not rule.startswith("/")),
    )


def descend(pointers: Iterable[Pointer], name: str, *, element: bool) -> tuple[Pointer, ...]:
    """What is left of the ``pointers`` that lead into the member or ``element`` of this name; one
    that is empty has arrived."""
    return tuple(
        pointer[1:]
        for pointer in pointers
        if pointer and (pointer[0] in (name, "*") or (element and pointer[0] == "-"))
    )


def _pointer(rule: str) -> Pointer:
    if _BAD_ESCAPE.search(rule) is not None:
        raise PydanticCustomError(
            "redaction_rule_invalid",
            "is no JSON pointer: '~' must be followed by 0 (for '~') or 1 (for '/')",
        )
    tokens = rule[1:].split("/")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens)


class _Re2Pattern:
    """A pattern of RE2."""

    __slots__ = ("_compiled",)

    def __init__(self, source: str) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_PROGRAM
        try:
            self._compiled = re2.compile(source, options)
        except re2.error as error:
            raise _refused(f"is no pattern that RE2 accepts ({_reason(error)})") from error

    def spans(self, text: str) -> Iterator[Span]:
        for match in self._compiled.finditer(text):
            yield match.span()


def _pattern(rule: str) -> Pattern:
    try:
        pattern = _Re2Pattern(rule)
    except ImportError as error:
        raise _refused(
            "is a pattern, which needs the package google-re2: install relay-gateway[redaction], "
            "or use a JSON pointer, which begins with '/'"
        ) from error
    except UnicodeEncodeError as error:
        raise _refused("is no pattern: it has half of a surrogate pair") from error
    if any(pattern.spans("")):
        raise _refused("is a pattern that matches where there is nothing")
    return pattern


def _reason(error: Exception) -> str:
    """What is wrong, without the part of the pattern that it is about."""
    told = error.args[0] if error.args else ""
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
    return text.partition(":")[0] or "it is too large"


def _refused(message: str) -> PydanticCustomError:
    return PydanticCustomError("redaction_rule_invalid", "{reason}", {"reason": message})
