"""What tests of plugins need of the gateway: ids, events, names of settings, lines of a log."""

from __future__ import annotations

from relay_gateway.http.sse import EventSplitter, parse_event
from relay_gateway.ids import is_slug, new_id
from relay_gateway.log import Redactor
from relay_gateway.settings import environment_names

__all__ = ["environment_names", "events_in", "is_slug", "logged", "new_id"]


def events_in(stream: bytes, size: int | None = None) -> list[tuple[bytes, bytes]]:
    """The events of a recorded stream, each as its name and its data, as a meter is given them;
    ``size`` has the stream arrive in chunks of so many bytes."""
    step, splitter = size or max(1, len(stream)), EventSplitter()
    chunks = (stream[start : start + step] for start in range(0, len(stream), step))
    return [parse_event(event) for chunk in chunks for event in splitter.feed(chunk)]


def logged(line: str) -> str:
    """A line as a log of the gateway has it, credentials masked that it knows of."""
    return Redactor()(line)
