"""Words of the Gemini API that mean something in the canonical form."""

from __future__ import annotations

import re
from typing import Any

from relay_gateway.plugin.canonical import StopKind

FORMAT = "gemini.generate"
UNSIGNED = "thought"
"""Kind of a blob that only says that a thought came from such a host, which did not sign it."""
CALL_PREFIX = "relay_call_"
"""How ids of tool calls begin that were made up, because the upstream gave none."""

STOPS = {
    "STOP": StopKind.END,
    "MAX_TOKENS": StopKind.LENGTH,
    "SAFETY": StopKind.REFUSAL,
    "RECITATION": StopKind.REFUSAL,
    "LANGUAGE": StopKind.REFUSAL,
    "BLOCKLIST": StopKind.REFUSAL,
    "PROHIBITED_CONTENT": StopKind.REFUSAL,
    "SPII": StopKind.REFUSAL,
    "IMAGE_SAFETY": StopKind.REFUSAL,
    "IMAGE_PROHIBITED_CONTENT": StopKind.REFUSAL,
    "MODEL_ARMOR": StopKind.REFUSAL,
    "FINISH_REASON_UNSPECIFIED": StopKind.END,
    "OTHER": StopKind.END,
}
BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""Finish reasons that mean that there is no answer."""
FINISH_REASONS = {
    StopKind.END: "STOP",
    StopKind.LENGTH: "MAX_TOKENS",
    StopKind.CONTEXT: "MAX_TOKENS",
    StopKind.STOP_SEQUENCE: "STOP",
    StopKind.TOOL_CALLS: "STOP",
    StopKind.REFUSAL: "SAFETY",
    StopKind.PAUSED: "STOP",
}
TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}

_SNAKE = re.compile(r"_([a-z])")
_KNOWN = frozenset(
    {
        "allowedFunctionNames",
        "candidateCount",
        "displayName",
        "fileData",
        "fileUri",
        "frequencyPenalty",
        "functionCall",
        "functionCallingConfig",
        "functionDeclarations",
        "functionResponse",
        "generationConfig",
        "includeThoughts",
        "inlineData",
        "maxOutputTokens",
        "mimeType",
        "parametersJsonSchema",
        "presencePenalty",
        "responseJsonSchema",
        "responseLogprobs",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "serviceTier",
        "stopSequences",
        "systemInstruction",
        "thinkingBudget",
        "thinkingConfig",
        "thinkingLevel",
        "thoughtSignature",
        "toolConfig",
        "topK",
        "topP",
    }
)


def camel(value: dict[str, Any]) -> dict[str, Any]:
    """``value`` with the members that are known here in camel case; the API takes both
    spellings."""
    return {_spelling(name): each for name, each in value.items()}


def _spelling(name: str) -> str:
    spelled = _SNAKE.sub(lambda found: found[1].upper(), name)
    return spelled if spelled in _KNOWN else name
