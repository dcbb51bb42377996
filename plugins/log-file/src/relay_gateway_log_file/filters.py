"""What a query wants of a record, asked cheaply at first and exactly then."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from relay_gateway.plugin import LOG_FILTERS, UsageRecord
from relay_gateway_log_file.lines import microseconds

Wanted = str | int | bool

FLAGS = frozenset({"streamed", "unpriced"})
NUMBERS = frozenset({"status"})
TEXT_SEARCHED = (
    "request_id",
    "client_request_id",
    "relay_key_id",
    "policy_id",
    "provider_id",
    "model_id",
    "requested_model",
    "upstream_model",
    "host_id",
    "host_key_id",
    "error_code",
)
"""Fields that ``text`` is looked for in."""


def member_of(field: str) -> str:
    """The attribute of a record field in camelCase."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


class Conditions(msgspec.Struct, frozen=True):
    """``start`` and ``end`` are microseconds since 1970; ``text`` is in lower case."""

    start: int | None
    end: int | None
    equals: Mapping[str, Wanted]
    tags: Mapping[str, str]
    text: str
    needles: tuple[bytes, ...]
    """What every line of a wanted record contains: faster to look for than to decode it."""

    @property
    def decodes(self) -> bool:
        """Whether anything is wanted that only the whole record tells."""
        return bool(self.equals or self.tags or self.text)

    def in_period(self, moment: int) -> bool:
        """Whether a request that began then is wanted."""
        return (self.start is None or moment >= self.start) and (
            self.end is None or moment < self.end
        )

    def may_match(self, line: bytes) -> bool:
        """``False`` where the record of ``line`` is not wanted for sure."""
        return all(needle in line for needle in self.needles)

    def match(self, record: UsageRecord) -> bool:
        """Whether ``record`` is wanted, apart from its time."""
        return (
            all(getattr(record, name) == value for name, value in self.equals.items())
            and all(record.tags.get(name) == value for name, value in self.tags.items())
            and (not self.text or self._has_text(record))
        )

    def _has_text(self, record: UsageRecord) -> bool:
        texts: list[str | None] = [getattr(record, name) for name in TEXT_SEARCHED]
        return any(text is not None and self.text in text.lower() for text in texts)


def conditions_of(
    start: str | None,
    end: str | None,
    equals: Mapping[str, Wanted],
    tags: Mapping[str, str],
    text: str | None,
) -> Conditions:
    """The conditions of a query. Raises :class:`ValueError` saying what is wrong with it."""
    wanted = {field: _wanted(field, value) for field, value in equals.items()}
    pairs = [*wanted.items(), *tags.items()]
    return Conditions(
        start=None if start is None else microseconds(start),
        end=None if end is None else microseconds(end),
        equals={member_of(field): value for field, value in wanted.items()},
        tags=tags,
        text=(text or "").lower(),
        needles=tuple(msgspec.json.encode({name: value})[1:-1] for name, value in pairs),
    )


def _wanted(field: str, value: Wanted) -> Wanted:
    if field not in LOG_FILTERS:
        known = ", ".join(sorted(LOG_FILTERS))
        raise ValueError(f"records cannot be filtered by {field!r}; they can by {known}")
    if field in FLAGS:
        return _flag(field, value)
    return _whole_number(field, value) if field in NUMBERS else str(value)


def _flag(field: str, value: Wanted) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError(f"{field} is true or false, not {value!r}")


def _whole_number(field: str, value: Wanted) -> int:
    text = str(value)
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    raise ValueError(f"{field} is a whole number, not {text[:40]!r}")
