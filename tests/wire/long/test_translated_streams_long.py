"""A million translated streams, disturbed, cut in pieces and cut off."""

from __future__ import annotations

import logging
import time
from types import ModuleType

from relay_gateway.plugin import WireFormat
from relay_gateway.testing.speakers import chat, generate, messages, responses
from relay_gateway.testing.translated_streams import TranslationMaker, judge_translation
from relay_gateway_provider_anthropic.formats import MessagesFormat
from relay_gateway_provider_gemini.formats import GenerateFormat
from relay_gateway_provider_openai.formats import ChatFormat, ResponsesFormat

CASES = 1_000_000
SPOKEN: dict[str, tuple[WireFormat, ModuleType]] = {
    "chat": (ChatFormat(), chat),
    "responses": (ResponsesFormat(), responses),
    "messages": (MessagesFormat(), messages),
    "gemini": (GenerateFormat(), generate),
}

_log = logging.getLogger(__name__)


async def test_r23_a_million_translated_streams() -> None:
    seed = time.time_ns() % 2**32
    _log.info("seed %d", seed)
    maker = TranslationMaker(SPOKEN, seed)
    for number in range(CASES):
        judge_translation(maker, SPOKEN)
        if not number % 100_000:
            _log.info("%d streams", number)
