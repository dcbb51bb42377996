"""Which host key a conversation goes on with: upstreams keep prompts for one account at a time.

What a provider has cached of a prompt helps only the key that sent it. So a request whose prompt is
worth caching prefers the key that served the last one of its conversation, and otherwise the one
that rendezvous hashing (highest random weight) gives: all processes of all instances choose alike,
and a key that is left out moves only its own conversations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Final

import msgspec

from relay_gateway.plugin.context import Clock

MIN_MARKED: Final = 1024
"""No upstream caches a body shorter than this, in bytes, however it is marked."""
MIN_UNMARKED: Final = 4096
PIECE: Final = 1024
"""So much is hashed of the beginning of a body, and of the first words of a user."""
SEARCHED: Final = 32_768
MAX_CONVERSATIONS: Final = 10_000
LIFETIME: Final = 300.0
LONG_LIFETIME: Final = 3600.0
_MARK: Final = b'"cache_control"'
_LONG: Final = b'"1h"'
_USER: Final = b'"user"'
_WORDS: Final = re.compile(rb'"(?:content|text)"\s*:\s*"((?:[^"\\]|\\.){0,1024})', re.DOTALL)


class Conversation(msgspec.Struct, frozen=True):
    """A conversation by its hash, and for how many seconds an upstream keeps its prompt."""

    id: int
    lifetime: float


class Affinity:
    """Remembers for a while which key served which conversation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._served: dict[int, tuple[str, float]] = {}
        self._seeds: dict[str, int] = {}
        self.hits = 0
        """How many requests went to the key that had served the last one of their conversation."""
        self.moves = 0
        """How many had to go to another one."""
        self.starts = 0
        """How many were the first of their conversation, as far as is known here."""

    def prefer(
        self, conversation: Conversation, key_ids: Collection[str], usable: Callable[[str], bool]
    ) -> str | None:
        """The best of some keys for a conversation, if one is usable."""
        last, until = self._served.get(conversation.id, ("", 0.0))
        if last in key_ids and until > self._clock.monotonic() and usable(last):
            return last
        number, seeds = conversation.id, self._seeds
        try:
            weighed = [(hash((number, seeds[one])) & _POSITIVE, one) for one in key_ids]
        except KeyError:
            self._sow(key_ids)
            weighed = [(hash((number, self._seeds[one])) & _POSITIVE, one) for one in key_ids]
        best = max(weighed)[1]
        if usable(best):
            return best
        return next((one for _, one in sorted(weighed, reverse=True) if usable(one)), None)

    def served(self, conversation: Conversation, key_id: str) -> None:
        """A request of the conversation was answered with this key."""
        now = self._clock.monotonic()
        known = self._served.pop(conversation.id, None)
        if known is None or known[1] <= now:
            self.starts += 1
        elif known[0] == key_id:
            self.hits += 1
        else:
            self.moves += 1
        if len(self._served) >= MAX_CONVERSATIONS:
            del self._served[next(iter(self._served))]
        self._served[conversation.id] = (key_id, now + conversation.lifetime)

    def _sow(self, key_ids: Collection[str]) -> None:
        if len(self._seeds) >= MAX_CONVERSATIONS:
            self._seeds.clear()
        self._seeds.update((one, _digest(one.encode())) for one in key_ids)


_POSITIVE: Final = (1 << 64) - 1


def conversation_of(relay_key_id: str, model_id: str, body: bytes) -> Conversation | None:
    """The conversation that a request belongs to; ``None`` where its prompt is too short to be
    cached.

    It is told by the relay key, the model, what comes before the first message of a user and the
    first words of that: further turns come after these, and others have other words. Two pieces of
    1 KiB are hashed and 32 KiB searched at most, whatever the size of the body.
    """
    if len(body) < MIN_MARKED:
        return None
    if len(body) < MIN_UNMARKED and _MARK not in body:
        return None
    first = body.find(_USER, 0, SEARCHED)
    words = _WORDS.search(body, first, first + 2 * PIECE) if first >= 0 else None
    beginning = body[: min(first, PIECE) if first >= 0 else PIECE]
    said = words[1] if words is not None else b""
    text = b"\0".join((relay_key_id.encode(), model_id.encode(), beginning, said))
    lifetime = LONG_LIFETIME if body.find(_LONG, 0, SEARCHED) >= 0 else LIFETIME
    return Conversation(_digest(text), lifetime)


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=7).digest(), "big")
