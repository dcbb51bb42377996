"""Questions from process to process, here with both ends in one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relay_gateway.server.letterbox import Answering, Letterbox, keep_only
from relay_gateway.testing.instances import until


@asynccontextmanager
async def answering(box: Letterbox, answer: Callable[[bytes], bytes]) -> AsyncIterator[None]:
    side = Answering(box.answering, answer)
    side.start()
    try:
        yield
    finally:
        await side.aclose()


@pytest.fixture
async def box() -> AsyncIterator[Letterbox]:
    made = Letterbox.make()
    yield made
    keep_only([made])


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
async def test_an_answer_may_be_of_any_length(box: Letterbox, size: int) -> None:
    async with answering(box, lambda _: b"x" * size):
        before = descriptors()
        assert await box.ask(5, b"?") == b"x" * size
        assert len(await asyncio.gather(*(box.ask(5, b"?") for _ in range(3)))) == 3
    assert descriptors() == before


async def test_nobody_there_is_a_timeout_and_leaves_nothing_open(box: Letterbox) -> None:
    before = descriptors()
    with pytest.raises(TimeoutError):
        await box.ask(0.01, b"?")
    assert descriptors() == before


async def test_who_comes_later_answers_what_is_still_waited_for(box: Letterbox) -> None:
    with pytest.raises(TimeoutError):
        await box.ask(0.01, b"?")
    asked = asyncio.ensure_future(box.ask(5, b"?"))
    await asyncio.sleep(0)
    async with answering(box, lambda _: b"here"):
        assert await asked == b"here"


async def test_letters_that_nobody_takes_out_are_refused_at_some_point(box: Letterbox) -> None:
    refused = False
    for _ in range(10_000):
        try:
            await box.ask(0, b"?")
        except TimeoutError:
            continue
        except BlockingIOError:
            refused = True
            break
    assert refused


async def test_who_cannot_answer_says_nothing_and_lives(
    box: Letterbox, caplog: pytest.LogCaptureFixture
) -> None:
    answers = [b"second"]
    with caplog.at_level(logging.ERROR):
        async with answering(box, lambda _: answers.pop() if caplog.records else _fail()):
            assert await box.ask(5, b"?") == b""
            assert await box.ask(5, b"?") == b"second"
    assert len(caplog.records) == 1


def _fail() -> bytes:
    raise RuntimeError("made up")


async def test_an_answer_under_way_does_not_hold_up_the_end(box: Letterbox) -> None:
    side = Answering(box.answering, lambda _: b"x" * 50_000_000)
    side.start()
    asked = asyncio.ensure_future(box.ask(5, b"?"))
    await until(lambda: side._writing)
    await asyncio.wait_for(side.aclose(), 1)
    assert len(await asked) < 50_000_000


async def test_each_question_comes_whole_with_its_answer(box: Letterbox) -> None:
    questions = [b"a", b"b" * 100_000]
    async with answering(box, lambda question: question[::-1]):
        asked = [box.ask(5, question) for question in questions]
        assert await asyncio.gather(*asked) == questions
