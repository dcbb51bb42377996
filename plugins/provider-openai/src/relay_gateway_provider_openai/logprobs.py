"""Log probabilities of the OpenAI API, which Chat Completions and Responses write alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from relay_gateway.plugin.canonical import TokenLogprob


def read_logprobs(found: object) -> tuple[TokenLogprob, ...] | None:
    """A list of tokens; ``None`` when it is none, entries that are no tokens left out."""
    if not isinstance(found, list):
        return None
    return tuple(_token(entry) for entry in found if isinstance(entry, dict))


def _token(entry: dict[str, Any]) -> TokenLogprob:
    token, logprob, octets = entry.get("token"), entry.get("logprob"), entry.get("bytes")
    return TokenLogprob(
        token if isinstance(token, str) else "",
        float(logprob) if isinstance(logprob, int | float) else 0.0,
        tuple(octets) if isinstance(octets, list) else None,
        read_logprobs(entry.get("top_logprobs")) or (),
    )


def write_logprobs(logprobs: Iterable[TokenLogprob]) -> list[dict[str, Any]]:
    """The list for ``logprobs``; bytes nobody said are those of the token's text."""
    return [_entry(one) | {"top_logprobs": [_entry(top) for top in one.top]} for one in logprobs]


def _entry(one: TokenLogprob) -> dict[str, Any]:
    octets = one.bytes if one.bytes is not None else one.token.encode("utf-8", "replace")
    return {"token": one.token, "logprob": one.logprob, "bytes": list(octets)}
