"""The items of a streamed response while they are being written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Blob,
    Reasoning,
    ReasoningDelta,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
    TokenLogprob,
    ToolCall,
    seal,
)
from relay_gateway.plugin.codec import AnswerContext
from relay_gateway_provider_openai.logprobs import write_logprobs
from relay_gateway_provider_openai.responses_answers import item_id, message_item
from relay_gateway_provider_openai.responses_writer import function_call, reasoning_item

Event = tuple[str, dict[str, Any]]
"""Type of an event and its members, but for the type and the sequence number."""
Delta = TextDelta | RefusalDelta | ReasoningDelta | ArgumentsDelta


class OpenItem(ABC):
    """One item of the output."""

    def __init__(self, name: str, output: int) -> None:
        self.name = name
        self.place = {"item_id": name, "output_index": output}
        self.output = output

    def begin(self) -> list[Event]:
        """The events at its beginning."""
        item = self.whole("in_progress")
        return [("response.output_item.added", {"output_index": self.output, "item": item})]

    @abstractmethod
    def more(self, delta: Delta) -> list[Event]:
        """The events for more of it."""

    def sign(self, blob: Blob) -> None:  # noqa: B027 - most items have nothing to note
        """Notes what has to come back with it."""

    def finish(self) -> list[Event]:
        """The events at its end."""
        return [("response.output_item.done", {"output_index": self.output, "item": self.whole()})]

    @abstractmethod
    def whole(self, status: str = "completed") -> dict[str, Any]:
        """The item as it is now."""


class TextItem(OpenItem):
    """A message with one text."""

    def __init__(self, name: str, output: int) -> None:
        super().__init__(name, output)
        self._texts: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self.place["content_index"] = 0

    def begin(self) -> list[Event]:
        added = ("response.content_part.added", self.place | {"part": self._content()})
        return [*super().begin(), added]

    def more(self, delta: Delta) -> list[Event]:
        self._texts.append(delta.text)
        found = delta.logprobs if isinstance(delta, TextDelta) else ()
        self._logprobs += found
        members = self.place | {"delta": delta.text, "logprobs": write_logprobs(found)}
        return [("response.output_text.delta", members)]

    def finish(self) -> list[Event]:
        content = self._content()
        said = {"text": content["text"], "logprobs": content["logprobs"]}
        return [
            ("response.output_text.done", self.place | said),
            ("response.content_part.done", self.place | {"part": content}),
            *super().finish(),
        ]

    def whole(self, status: str = "completed") -> dict[str, Any]:
        content = [self._content()] if status == "completed" else []
        return message_item(self.name, content, status)

    def _content(self) -> dict[str, Any]:
        return {
            "type": "output_text",
            "text": "".join(self._texts),
            "annotations": [],
            "logprobs": write_logprobs(self._logprobs),
        }


class RefusalItem(OpenItem):
    """A message that is a refusal."""

    def __init__(self, name: str, output: int) -> None:
        super().__init__(name, output)
        self._texts: list[str] = []
        self.place["content_index"] = 0

    def begin(self) -> list[Event]:
        added = ("response.content_part.added", self.place | {"part": self._content()})
        return [*super().begin(), added]

    def more(self, delta: Delta) -> list[Event]:
        self._texts.append(delta.text)
        return [("response.refusal.delta", self.place | {"delta": delta.text})]

    def finish(self) -> list[Event]:
        content = self._content()
        return [
            ("response.refusal.done", self.place | {"refusal": content["refusal"]}),
            ("response.content_part.done", self.place | {"part": content}),
            *super().finish(),
        ]

    def whole(self, status: str = "completed") -> dict[str, Any]:
        content = [self._content()] if status == "completed" else []
        return message_item(self.name, content, status)

    def _content(self) -> dict[str, Any]:
        return {"type": "refusal", "refusal": "".join(self._texts)}


class CallItem(OpenItem):
    """A tool call."""

    def __init__(self, name: str, output: int, call: ToolCall) -> None:
        super().__init__(name, output)
        self._call = call
        self._arguments: list[str] = []

    def more(self, delta: Delta) -> list[Event]:
        self._arguments.append(delta.text)
        members = self.place | {"delta": delta.text}
        return [("response.function_call_arguments.delta", members)]

    def finish(self) -> list[Event]:
        arguments = self.whole()["arguments"]
        done = self.place | {"name": self._call.name, "arguments": arguments}
        return [("response.function_call_arguments.done", done), *super().finish()]

    def whole(self, status: str = "completed") -> dict[str, Any]:
        arguments = "".join(self._arguments)
        item = function_call(ToolCall(self._call.id, self._call.name, arguments))
        if status != "completed":
            item["arguments"] = arguments
        return item | {"id": self.name, "status": status}


class ReasoningItem(OpenItem):
    """Reasoning: summary texts, thoughts, and what the provider wants back."""

    def __init__(self, name: str, output: int) -> None:
        super().__init__(name, output)
        self._texts: dict[tuple[bool, int], list[str]] = {}
        self._blob: Blob | None = None

    def more(self, delta: Delta) -> list[Event]:
        if not isinstance(delta, ReasoningDelta):
            return []
        key = (delta.summary, delta.section)
        events = [] if key in self._texts else self._opened(key)
        self._texts.setdefault(key, []).append(delta.text)
        kind = "reasoning_summary_text" if delta.summary else "reasoning_text"
        return [*events, (f"response.{kind}.delta", self._at(key) | {"delta": delta.text})]

    def sign(self, blob: Blob) -> None:
        self._blob = blob

    def finish(self) -> list[Event]:
        closed = [event for key in self._texts for event in self._closed(key)]
        return [*closed, *super().finish()]

    def whole(self, status: str = "completed") -> dict[str, Any]:
        summary, content = (
            tuple(
                "".join(text) for (is_summary, _), text in self._texts.items() if is_summary is one
            )
            for one in (True, False)
        )
        encrypted = seal(self._blob) if self._blob is not None else ""
        return reasoning_item(Reasoning(summary, content), self.name, encrypted)

    def _at(self, key: tuple[bool, int]) -> dict[str, Any]:
        return self.place | {"summary_index" if key[0] else "content_index": key[1]}

    def _opened(self, key: tuple[bool, int]) -> list[Event]:
        return [self._part_event(key, "added", "")]

    def _closed(self, key: tuple[bool, int]) -> list[Event]:
        text = "".join(self._texts[key])
        kind = "reasoning_summary_text" if key[0] else "reasoning_text"
        done = (f"response.{kind}.done", self._at(key) | {"text": text})
        return [done, self._part_event(key, "done", text)]

    def _part_event(self, key: tuple[bool, int], what: str, text: str) -> Event:
        event, part = ("content_part", "reasoning_text")
        if key[0]:
            event, part = ("reasoning_summary_part", "summary_text")
        members = {"part": {"type": part, "text": text}}
        return (f"response.{event}.{what}", self._at(key) | members)


def open_item(
    part: Text | Refusal | Reasoning | ToolCall, output: int, context: AnswerContext
) -> OpenItem:
    """The item for a part that begins."""
    name = item_id(part, output, context)
    match part:
        case ToolCall():
            return CallItem(name, output, part)
        case Reasoning():
            return ReasoningItem(name, output)
        case Refusal():
            return RefusalItem(name, output)
        case _:
            return TextItem(name, output)
