"""Canonical requests and answers that ask for one thing each, and generated ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from relay_gateway.plugin.canonical import (
    Audio,
    Base64,
    Blob,
    CacheMark,
    CanonicalRequest,
    CanonicalResponse,
    Document,
    Image,
    JsonOutput,
    Message,
    Origin,
    Part,
    PlainText,
    Reasoning,
    ReasoningOptions,
    Refusal,
    Stop,
    StopKind,
    Text,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    Usage,
)
from relay_gateway.plugin.canonical.features import Feature

NOBODYS = "nobody.talk"
"""A format that no plugin speaks: not even one that is called like the vendors of examples."""
NAMES = {feature: f"acme_{feature.name.lower()}" for feature in Feature}
"""What the format that these requests come from calls each feature."""
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg"
)
PDF = "JVBERi0xLjQKJSVFT0YK"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Where, e.g. Zürich"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool("get_weather", "The weather of a city", SCHEMA)
CLOCK = Tool("get_time", "The time in a city", SCHEMA)
HELLO = Message("user", (Text("Hello"),))


def request(*messages: Message, **options: Any) -> CanonicalRequest:
    """A request of a format that nothing here speaks."""
    said = messages or (HELLO,)
    origin = Origin(NOBODYS, NAMES)
    return CanonicalRequest(model="acme-1", messages=said, origin=origin, **options)


def user(*parts: Part) -> CanonicalRequest:
    """A request with one message of the user."""
    return request(Message("user", parts))


def tool_round(result: ToolResult, *before: Part) -> CanonicalRequest:
    """A request after one tool was called and gave ``result``."""
    call = ToolCall("call_1", "get_weather", '{"city": "Zürich"}')
    return request(
        HELLO,
        Message("assistant", (*before, call)),
        Message("tool", (result,)),
        tools=(WEATHER,),
    )


def _chat(part: Part) -> CanonicalRequest:
    return request(HELLO, Message("assistant", (part, Text("Good"))), HELLO)


def feature_requests(format_name: str) -> Mapping[Feature, CanonicalRequest]:
    """One request for each feature; ``format_name`` is whose reasoning is the own one."""
    return {**_with_options(), **_with_parts(format_name)}


def _with_options() -> Mapping[Feature, CanonicalRequest]:
    mark, auto = CacheMark(3600), ToolChoice("auto")
    both: dict[str, Any] = {"tools": (WEATHER, CLOCK)}
    return {
        Feature.MAX_OUTPUT_TOKENS: request(max_output_tokens=321),
        Feature.TEMPERATURE: request(temperature=0.5),
        Feature.TOP_P: request(top_p=0.25),
        Feature.TOP_K: request(top_k=7),
        Feature.FREQUENCY_PENALTY: request(frequency_penalty=0.5),
        Feature.PRESENCE_PENALTY: request(presence_penalty=0.5),
        Feature.SEED: request(seed=42),
        Feature.CHOICES: request(choices=2),
        Feature.LOGPROBS: request(logprobs=True, top_logprobs=2),
        Feature.LOGIT_BIAS: request(logit_bias={"50256": -100}),
        Feature.STOP: request(stop=("END", "STOP")),
        Feature.REASONING_EFFORT: request(reasoning=ReasoningOptions(effort="low")),
        Feature.REASONING_BUDGET: request(
            reasoning=ReasoningOptions("on", budget=2048), max_output_tokens=8192
        ),
        Feature.REASONING_OFF: request(reasoning=ReasoningOptions("off")),
        Feature.REASONING_SUMMARY: request(reasoning=ReasoningOptions(summary="auto")),
        Feature.JSON_OBJECT: request(output=JsonOutput()),
        Feature.JSON_SCHEMA: request(output=JsonOutput(SCHEMA, "city", "A city", strict=True)),
        Feature.VERBOSITY: request(verbosity="low"),
        Feature.CACHE_KEY: request(cache_key="tenant-1"),
        Feature.CACHE_MARK: user(Text("a long prompt", mark), Text("Hello")),
        Feature.USER: request(user="user-1"),
        Feature.METADATA: request(metadata={"team": "red"}),
        Feature.SERVICE_TIER: request(service_tier="default"),
        Feature.TOOLS: request(tools=(WEATHER,)),
        Feature.STRICT_TOOL: request(tools=(msgspec.structs.replace(WEATHER, strict=True),)),
        Feature.TOOL_CHOICE: request(tool_choice=ToolChoice("none"), **both),
        Feature.FORCED_TOOL: request(tool_choice=ToolChoice("required", ("get_time",)), **both),
        Feature.ALLOWED_TOOLS: request(
            tool_choice=ToolChoice("auto", ("get_time", "get_weather")), **both
        ),
        Feature.ONE_TOOL_AT_A_TIME: request(parallel_tool_calls=False, tool_choice=auto, **both),
    }


def _with_parts(format_name: str) -> Mapping[Feature, CanonicalRequest]:
    fine = ToolResult("call_1", (Text("sunny"),))
    own = Reasoning(("I think",), blob=Blob(format_name, "c2lnbmVk", "signature", "rs_1"))
    foreign = Reasoning(("I think",), blob=Blob("other.talk", "c2lnbmVk"))
    image = Image(Base64("image/png", PIXEL))
    pdf = Base64("application/pdf", PDF)
    return {
        Feature.SYSTEM: request(Message("system", (Text("Be brief."),)), HELLO),
        Feature.SYSTEM_IN_PLACE: request(HELLO, Message("system", (Text("Be brief."),)), HELLO),
        Feature.DEVELOPER: request(Message("developer", (Text("Be brief."),)), HELLO),
        Feature.PARTICIPANT_NAME: request(Message("user", (Text("Hello"),), "ada")),
        Feature.IMAGE_URL: user(Image(Url("https://example.com/a.png")), Text("What is it?")),
        Feature.IMAGE_DATA: user(image, Text("What is it?")),
        Feature.IMAGE_DETAIL: user(Image(Base64("image/png", PIXEL), "low")),
        Feature.DOCUMENT_URL: user(Document(Url("https://example.com/a.pdf"))),
        Feature.DOCUMENT_DATA: user(Document(pdf)),
        Feature.DOCUMENT_TEXT: user(Document(PlainText("once upon a time"))),
        Feature.DOCUMENT_NAME: user(Document(pdf, "a.pdf")),
        Feature.DOCUMENT_CONTEXT: user(Document(pdf, "", "a report")),
        Feature.AUDIO_URL: user(Audio(Url("https://example.com/a.wav", "audio/wav"))),
        Feature.AUDIO_DATA: user(Audio(Base64("audio/wav", "UklGRg=="))),
        Feature.REFUSAL: _chat(Refusal("I cannot help with that.")),
        Feature.REASONING: tool_round(fine, own),
        Feature.FOREIGN_REASONING: tool_round(fine, foreign),
        Feature.TOOL_RESULT_MEDIA: tool_round(ToolResult("call_1", (Text("a map"), image))),
        Feature.TOOL_RESULT_ERROR: tool_round(
            ToolResult("call_1", (Text("no such city"),), is_error=True)
        ),
    }


_USAGE = Usage(input=30, output=12, cache_read=8, reasoning=4)


def answer(*parts: Part, stop: StopKind = StopKind.END, **more: Any) -> CanonicalResponse:
    """An answer with some usage."""
    members: dict[str, Any] = {"id": "answer-1", "model": "acme-1-2026", "usage": _USAGE} | more
    return CanonicalResponse(parts=parts, stop=Stop(stop), **members)


FOREIGN = Blob(NOBODYS, 'EqQB+/=é"\\', "signature", "rs_1")
TWO_CALLS = (
    ToolCall("call_1", "get_weather", '{"city":"Zürich \\"}{ \\\\"}'),
    ToolCall("call_2", "get_time", '{"city":["}",{"a":{}}]}'),
)
ANSWERS = {
    "text": answer(Text("Grüezi — 😀\n\ndata: [DONE]")),
    "length": answer(Text("Once upon a"), stop=StopKind.LENGTH),
    "parallel_calls": answer(*TWO_CALLS, stop=StopKind.TOOL_CALLS),
    "text_and_call": answer(Text("Let me see."), TWO_CALLS[0], stop=StopKind.TOOL_CALLS),
    "reasoning": answer(Reasoning(("First this.",), blob=FOREIGN), Text("Sunny.")),
    "hidden_reasoning": answer(Reasoning(blob=FOREIGN), Text("Sunny.")),
    "reasoning_and_calls": answer(
        Reasoning(("Look it up.",), blob=FOREIGN), *TWO_CALLS, stop=StopKind.TOOL_CALLS
    ),
    "no_arguments": answer(ToolCall("call_1", "ping", "{}"), stop=StopKind.TOOL_CALLS),
}
"""Answers that every format can tell, and nothing of which may be lost."""
LOGPROBS = (
    TokenLogprob("Sun", -0.25, tuple(b"Sun"), (TokenLogprob("Sun", -0.25, tuple(b"Sun")),)),
    TokenLogprob("ny", -0.5, tuple(b"ny"), ()),
)

_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
_words = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
_marks = st.none() | st.sampled_from([CacheMark(), CacheMark(300), CacheMark(3600)])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_arguments = st.dictionaries(_words, _json, max_size=3).map(
    lambda value: msgspec.json.encode(value).decode()
)
_texts_in = st.builds(Text, _texts, _marks)
_media = st.sampled_from(
    [
        Image(Base64("image/png", PIXEL)),
        Image(Url("https://example.com/a.png")),
        Document(Base64("application/pdf", PDF), "a.pdf"),
    ]
)


@st.composite
def _rounds(draw: st.DrawFn) -> list[Message]:
    """Some calls of the assistant, and their results."""
    count = draw(st.integers(1, 3))
    prefix = draw(_words)
    calls = [
        ToolCall(f"{prefix}_{number}", draw(_words), draw(_arguments)) for number in range(count)
    ]
    results = [ToolResult(call.id, (Text(draw(_texts)),), name=call.name) for call in calls]
    said = draw(st.lists(st.builds(Text, _texts), max_size=1))
    turn: tuple[Part, ...] = (*said, *calls)
    return [Message("assistant", turn), *(Message("tool", (result,)) for result in results)]


_asked: st.SearchStrategy[Part] = st.one_of(_texts_in, _media)
_questions = st.lists(_asked, min_size=1, max_size=3).map(
    lambda parts: [Message("user", tuple(parts))]
)
_replies = st.builds(Text, _texts).map(lambda text: [Message("assistant", (text,)), HELLO])
_systems = st.lists(_texts_in.map(lambda text: Message("system", (text,))), max_size=1)


@st.composite
def requests(draw: st.DrawFn) -> CanonicalRequest:
    """Any request of a conversation that makes sense."""
    turns = draw(st.lists(_questions | _replies | _rounds(), min_size=1, max_size=4))
    conversation = [*draw(_systems), HELLO, *(each for turn in turns for each in turn)]
    tools = draw(st.lists(st.sampled_from([WEATHER, CLOCK]), unique_by=id, max_size=2))
    options: dict[str, st.SearchStrategy[Any]] = {
        "max_output_tokens": st.none() | st.integers(1, 4096),
        "temperature": st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        "top_p": st.none() | st.sampled_from([0.25, 1.0]),
        "top_k": st.none() | st.integers(1, 50),
        "seed": st.none() | st.integers(0, 99),
        "stop": st.just(()) | st.just(("END",)),
        "user": st.none() | _words,
        "output": st.none() | st.just(JsonOutput(SCHEMA, "answer")),
        "stream": st.booleans(),
        "parallel_tool_calls": st.none() | st.booleans(),
    }
    drawn = {name: draw(strategy) for name, strategy in options.items()}
    return request(*conversation, tools=tuple(tools), **drawn)


@st.composite
def answers(draw: st.DrawFn) -> CanonicalResponse:
    """Any answer that every format can tell."""
    parts: list[Part] = []
    if draw(st.booleans()):
        data = draw(_texts)
        parts.append(Reasoning((draw(_texts),), blob=Blob(NOBODYS, data)))
    if draw(st.booleans()):
        parts.append(Text(draw(_texts)))
    count = draw(st.integers(0 if parts else 1, 3))
    parts += [ToolCall(f"call_{n}", draw(_words), draw(_arguments)) for n in range(count)]
    read, reasoned = draw(st.integers(0, 500)), draw(st.integers(0, 500))
    usage = Usage(
        input=read + draw(st.integers(0, 10**6)),
        output=reasoned + draw(st.integers(0, 10**6)),
        cache_read=read,
        reasoning=reasoned,
    )
    stop = StopKind.TOOL_CALLS if count else draw(st.sampled_from([StopKind.END, StopKind.LENGTH]))
    return answer(*parts, stop=stop, usage=usage)
