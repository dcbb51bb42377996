"""Puts together the reasoning that a stream of Chat Completions brings in pieces.

Hosts stream ``reasoning_content`` alone, or entries of ``reasoning_details`` whose texts are
pieces, or first the one and then the other with the same text and a signature.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin.canonical import Blob
from relay_gateway.plugin.sequencer import MAX_HELD
from relay_gateway_provider_openai.chat_reasoning import FORMAT, TEXT, own_blob

_PIECES = ("text", "summary", "data")


class Thoughts:
    """The reasoning part that is open, if one is."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._size = 0
        self._entry: dict[str, Any] | None = None

    def add(self, text: str) -> None:
        """More text that no entry of ``reasoning_details`` came with."""
        self._size += len(text)
        if self._size > MAX_HELD:
            raise UpstreamProtocolError("the upstream's reasoning is too long to be given back")
        self._said.append(text)

    def continues(self, detail: Any) -> bool:
        """Whether ``detail`` belongs to the open part."""
        if not isinstance(detail, dict):
            return False
        if self._entry is not None:
            return all(self._entry.get(key) == detail.get(key) for key in ("type", "index"))
        return bool(self._said) and self._repeats(detail)

    def take(self, detail: Any) -> Iterator[tuple[str, bool]]:
        """Takes an entry; the texts in it that are new, and whether each is a summary."""
        entry = detail if isinstance(detail, dict) else {"data": detail}
        repeated = self._entry is None and bool(self._said) and self._repeats(entry)
        before = self._entry or {}
        joined = {
            key: before[key] + entry[key]
            for key in _PIECES
            if isinstance(before.get(key), str) and isinstance(entry.get(key), str)
        }
        self._entry = before | {key: each for key, each in entry.items() if each is not None}
        self._entry |= joined
        for key in ("text", "summary"):
            text = entry.get(key)
            if isinstance(text, str) and text and not repeated:
                self.add(text)
                yield text, key == "summary"

    def finish(self) -> Blob:
        """What has to come back with the part, which is over."""
        entry = self._entry
        self._said, self._size, self._entry = [], 0, None
        return own_blob(entry) if entry is not None else Blob(FORMAT, "", TEXT)

    def _repeats(self, detail: dict[str, Any]) -> bool:
        """Whether ``detail`` has no text but that which was said already."""
        texts = [detail[key] for key in ("text", "summary") if detail.get(key)]
        return not texts or "".join(str(text) for text in texts) == "".join(self._said)
