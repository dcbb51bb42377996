"""Moderations and reranking: answers that judge a text and write none."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from relay_gateway_provider_echo.reply import Reply
from relay_gateway_provider_echo.speaker import Speaker
from relay_gateway_provider_echo.turn import ToolUse, Turn, decode, invalid
from relay_gateway_provider_echo.words import count_words

CATEGORIES = ("harassment", "hate", "self-harm", "sexual", "violence")

_Text = Annotated[str, Meta(min_length=1)]


class _Moderation(msgspec.Struct):
    model: str
    input: _Text | Annotated[list[Any], Meta(min_length=1, max_length=2048)]


class _Document(msgspec.Struct):
    text: str


class _Rerank(msgspec.Struct):
    model: str
    query: _Text
    documents: Annotated[list[str | _Document], Meta(min_length=1, max_length=1000)]
    top_n: Annotated[int, Meta(ge=1)] | None = None
    return_documents: bool = False


class ModerationsSpeaker(Speaker):
    """Speaks ``openai.moderations``; nothing is ever flagged."""

    def __init__(self, body: bytes) -> None:
        given = decode(body, _Moderation).input
        # A list of texts is as many inputs; a list of parts is one input of several parts.
        several = isinstance(given, list) and all(isinstance(item, str) for item in given)
        self._inputs = len(given) if several else 1
        text = given if isinstance(given, str) else next(iter(given))
        own = isinstance(text, str)
        self.turn = Turn(text if own else "", 0, from_user=own, tool_use=ToolUse.NEVER)

    def whole(self, reply: Reply) -> object:
        calm = {
            "flagged": False,
            "categories": dict.fromkeys(CATEGORIES, False),
            "category_scores": dict.fromkeys(CATEGORIES, 0.0),
        }
        return {"id": f"modr-{reply.key}", "model": reply.model, "results": [calm] * self._inputs}


class RerankSpeaker(Speaker):
    """Speaks ``openai.rerank``: the more words of the query a document has, the better."""

    def __init__(self, body: bytes) -> None:
        self._request = request = decode(body, _Rerank)
        self._texts = [
            document if isinstance(document, str) else document.text
            for document in request.documents
        ]
        self._wanted = set(request.query.lower().split())
        if not self._wanted:
            raise invalid("The query has no word", "query")
        tokens = count_words([request.query, *self._texts])
        self.turn = Turn(request.query, tokens, tool_use=ToolUse.NEVER)

    def whole(self, reply: Reply) -> object:
        scores = [(self._score(text), index) for index, text in enumerate(self._texts)]
        best = sorted(scores, key=lambda one: (-one[0], one[1]))[: self._request.top_n]
        return {
            "id": f"rerank-{reply.key}",
            "model": reply.model,
            "results": [self._result(score, index) for score, index in best],
            "usage": {"total_tokens": reply.prompt_tokens},
        }

    def _score(self, text: str) -> float:
        found = self._wanted & set(text.lower().split())
        return len(found) / len(self._wanted)

    def _result(self, score: float, index: int) -> dict[str, Any]:
        result: dict[str, Any] = {"index": index, "relevance_score": score}
        if self._request.return_documents:
            result["document"] = {"text": self._texts[index]}
        return result
