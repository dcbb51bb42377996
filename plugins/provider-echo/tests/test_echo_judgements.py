"""What echo answers where a text is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize(
    ("given", "results"),
    [
        ("Hello", 1),
        (["Hello", "there"], 2),
        ([{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}], 1),
    ],
)
async def test_nothing_is_flagged(ask: Ask, given: object, results: int) -> None:
    answer = await ask("openai.moderations", {"model": "echo", "input": given})
    assert [one["flagged"] for one in answer.json["results"]] == [False] * results


async def test_documents_are_ranked_by_the_words_of_the_query_they_have(ask: Ask) -> None:
    body = {
        "model": "echo",
        "query": "good morning",
        "documents": ["evening", {"text": "Good Morning"}, "good night"],
        "top_n": 2,
        "return_documents": True,
    }
    answer = await ask("openai.rerank", body)
    assert answer.json["results"] == [
        {"index": 1, "relevance_score": 1.0, "document": {"text": "Good Morning"}},
        {"index": 2, "relevance_score": 0.5, "document": {"text": "good night"}},
    ]
    assert answer.json["usage"] == {"total_tokens": 7}


@pytest.mark.parametrize(
    ("wire_format", "body", "param"),
    [
        ("openai.moderations", {"model": "echo"}, "input"),
        ("openai.moderations", {"model": "echo", "input": []}, "input"),
        ("openai.rerank", {"model": "echo", "query": "a"}, "documents"),
        ("openai.rerank", {"model": "echo", "query": " ", "documents": ["a"]}, "query"),
        ("openai.rerank", {"model": "echo", "query": "a", "documents": []}, "documents"),
    ],
)
async def test_what_the_real_api_would_refuse_is_refused(
    ask: Ask, wire_format: str, body: dict[str, Any], param: str
) -> None:
    answer = await ask(wire_format, body)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


async def test_directives_work_there_too(ask: Ask) -> None:
    body = {"model": "echo", "query": '!echo {"status": 429}', "documents": ["a"]}
    assert (await ask("openai.rerank", body)).status == 429
