"""Reasoning in Chat Completions: members that OpenAI does not define and compatible hosts agree on.

``reasoning_content`` (or ``reasoning``) is the text; ``reasoning_details`` is a list of objects
that clients give back unchanged, which makes it the place for what other providers sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from relay_gateway.plugin.canonical import Blob, Reasoning, seal, unseal
from relay_gateway.plugin.members import Members

FORMAT = "openai.chat"
TEXT = "text"
"""Kind of a blob that only says that the text came from such a host."""
DETAIL = "detail"
"""Kind of a blob whose data is one entry of ``reasoning_details``, as JSON."""


def reasoning_of_message(members: Members, *, from_client: bool) -> Iterator[Reasoning]:
    """The reasoning of a message of the assistant. What a client gives back may have been sealed
    for it; what an upstream sends is the upstream's own, even if another gateway sealed it."""
    said = [members.text(name) for name in ("reasoning_content", "reasoning")]
    text = next((each for each in said if each), None)
    details = members.array("reasoning_details")
    if details:
        yield from (reasoning_of_detail(detail, from_client=from_client) for detail in details)
    elif text is not None:
        yield Reasoning(content=(text,), blob=Blob(FORMAT, "", TEXT))


def reasoning_of_detail(detail: Any, *, from_client: bool) -> Reasoning:
    """The reasoning in one entry of ``reasoning_details``."""
    entry = detail if isinstance(detail, dict) else {}
    text, summary = entry.get("text"), entry.get("summary")
    sealed = entry.get("signature") or entry.get("data")
    blob = unseal(sealed) if from_client and isinstance(sealed, str) else None
    return Reasoning(
        summary=(summary,) if isinstance(summary, str) and summary else (),
        content=(text,) if isinstance(text, str) and text else (),
        blob=blob or own_blob(detail),
    )


def own_blob(detail: Any) -> Blob:
    """One entry of ``reasoning_details`` as what it is: something to be given back."""
    return Blob(FORMAT, msgspec.json.encode(detail).decode(), DETAIL)


def message_members(reasoning: Iterable[Reasoning], *, own_only: bool) -> dict[str, Any]:
    """The members of a message for ``reasoning``; ``own_only`` leaves out what other providers
    signed, which is of no use to a host of this format."""
    details: list[Any] = []
    texts: list[str] = []
    for part in reasoning:
        own = part.blob is not None and part.blob.format == FORMAT
        if own_only and not own:
            continue
        text = text_of_reasoning(part)
        if text:
            texts.append(text)
        if part.blob is not None and part.blob.kind != TEXT:
            details.append(detail_of(part, part.blob, len(details)))
    members: dict[str, Any] = {}
    if texts and not (own_only and details):
        members["reasoning_content"] = "\n\n".join(texts)
    if details:
        members["reasoning_details"] = details
    return members


def detail_of(part: Reasoning, blob: Blob, index: int) -> Any:
    """One entry of ``reasoning_details``."""
    if blob.format == FORMAT and blob.kind == DETAIL:
        return msgspec.json.decode(blob.data)
    entry: dict[str, Any] = {"type": "reasoning.encrypted", "format": blob.format, "index": index}
    if part.content:
        entry |= {"type": "reasoning.text", "text": "\n\n".join(part.content)}
    if part.summary:
        entry |= {"type": "reasoning.summary", "summary": "\n\n".join(part.summary)}
    place = "data" if entry["type"] == "reasoning.encrypted" else "signature"
    return entry | {place: seal(blob)}


def text_of_reasoning(part: Reasoning) -> str:
    """What a reader is shown of ``part``."""
    return "\n\n".join(part.content or part.summary)
