"""Requests of the format, to and from the canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalRequest,
    Message,
    NativePart,
    NativeTool,
    Origin,
    Part,
    Reasoning,
    Refusal,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    unseal,
)
from relay_gateway.plugin.codec import Draft, WireCodec, text_of
from relay_gateway.plugin.members import Members, parse_object, refuse
from relay_gateway_provider_meridian.words import FORMAT


class TalkReader:
    """Reads one request. Every member is taken by somebody, or is named as not held."""

    def __init__(self, codec: WireCodec) -> None:
        self._codec = codec
        self._origin: Origin = codec.origin()

    def read(self, body: bytes) -> CanonicalRequest:
        """The whole request."""
        members = parse_object(body)
        call_tools = members.one_of("call_tools", "auto", "none")
        request = CanonicalRequest(
            model=members.required("model"),
            messages=tuple(self._turn(each) for each in members.children("turns")),
            stream=members.flag("stream") or False,
            stream_usage=True,
            tools=tuple(self._tool(each) for each in members.children("tools")),
            tool_choice=ToolChoice(cast("Any", call_tools)) if call_tools else None,
            max_output_tokens=members.integer("limit"),
            temperature=members.number("temperature"),
            top_p=members.number("top_p"),
            stop=members.texts("stop_texts"),
            user=members.text("user"),
            origin=self._origin,
        )
        request.extra = self._extra(members)
        return request

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _turn(self, members: Members) -> Message:
        role = members.one_of("role", "system", "user", "assistant", "tool")
        if role is None:
            raise refuse(members.at("role"), "is missing")
        parts = tuple(self._part(each) for each in members.children("parts"))
        return Message(cast("Role", role), parts, extra=self._extra(members))

    def _part(self, members: Members) -> Part:
        read = {
            "text": self._text,
            "thought": self._thought,
            "call": self._call,
            "result": self._result,
        }.get(members.peek("type"))
        if read is None:
            return self._codec.native_part(self._origin, members)
        members.take("type")
        return read(members)

    def _text(self, members: Members) -> Part:
        return Text(members.required("text"), extra=self._extra(members))

    def _thought(self, members: Members) -> Part:
        text, sealed = members.text("text") or "", members.text("seal")
        blob = (unseal(sealed) or Blob(FORMAT, sealed)) if sealed else None
        return Reasoning((text,) if text else (), blob=blob, extra=self._extra(members))

    def _call(self, members: Members) -> Part:
        call_id, name = members.required("id"), members.required("name")
        return ToolCall(call_id, name, members.required("arguments"), extra=self._extra(members))

    def _result(self, members: Members) -> Part:
        call_id, text = members.required("call"), members.required("text")
        failed = members.flag("failed") or False
        return ToolResult(call_id, (Text(text),), is_error=failed, extra=self._extra(members))

    def _tool(self, members: Members) -> Tool:
        name, description = members.required("name"), members.text("description") or ""
        return Tool(name, description, members.mapping("schema"), extra=self._extra(members))


def write_request(request: CanonicalRequest, model: str) -> Draft:
    """The request as this format has it."""
    own = request.origin.format == FORMAT
    draft = Draft({"model": model, "turns": list(_turns(request, own=own))})
    draft.put(
        stream=request.stream or None,
        limit=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        stop_texts=list(request.stop) or None,
        user=request.user,
        tools=[_tool(tool, own=own) for tool in request.tools] or None,
        call_tools=request.tool_choice.mode if request.tool_choice is not None else None,
    )
    if own:
        draft.put(**request.extra)
    return draft


def _turns(request: CanonicalRequest, *, own: bool) -> Iterator[dict[str, Any]]:
    for message in request.messages:
        role = "system" if message.role == "developer" else message.role
        written = [_part(part, own=own) for part in message.parts]
        turn = {"role": role, "parts": [part for part in written if part is not None]}
        yield turn | message.extra if own else turn


def _part(part: Part, *, own: bool) -> dict[str, Any] | None:
    """One part; ``None`` for thoughts that only another provider can read."""
    if isinstance(part, NativePart):
        return part.data
    written: dict[str, Any] | None
    match part:
        case Text(text=text) | Refusal(text=text):
            written = {"type": "text", "text": text}
        case Reasoning():
            written = _thought(part, own=own)
        case ToolCall():
            written = {"type": "call", "id": part.id, "name": part.name}
            written["arguments"] = part.arguments
        case ToolResult():
            written = {"type": "result", "call": part.call_id, "text": text_of(part.parts)}
            written |= {"failed": True} if part.is_error else {}
        case _:
            raise AssertionError(f"{type(part).__name__} is refused before it gets here")
    return written | part.extra if own and written is not None else written


def _thought(part: Reasoning, *, own: bool) -> dict[str, Any] | None:
    if part.blob is not None and part.blob.format != FORMAT:
        return None
    if part.blob is None and not own:
        return None
    written = {"type": "thought", "text": "\n\n".join(part.summary or part.content)}
    return written | ({"seal": part.blob.data} if part.blob is not None else {})


def _tool(tool: Tool | NativeTool, *, own: bool) -> dict[str, Any]:
    if isinstance(tool, NativeTool):
        return tool.data
    written: dict[str, Any] = {"name": tool.name}
    written |= {"description": tool.description} if tool.description else {}
    written |= {"schema": tool.parameters} if tool.parameters is not None else {}
    return written | tool.extra if own else written
