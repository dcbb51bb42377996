"""Media as the OpenAI API takes them: URLs, of which ``data:`` URLs (RFC 2397) hold the bytes."""

from __future__ import annotations

from collections.abc import Callable

from relay_gateway.plugin.canonical import Base64, CacheMark, Url
from relay_gateway.plugin.members import Members

_SECONDS = {"30m": 1800, "12h": 43_200}
AUDIO_FORMATS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
"""Values of ``input_audio.format`` and what they mean."""


def source_of(url: str) -> Url | Base64:
    """What a URL points to; a ``data:`` URL is taken apart."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Base64(head[5:-7], data)
    return Url(url)


def url_of(source: Url | Base64) -> str:
    """The URL for ``source``."""
    if isinstance(source, Url):
        return source.url
    return f"data:{source.media_type};base64,{source.data}"


def cache_mark(members: Members, note: Callable[[Members], object]) -> CacheMark | None:
    """The explicit cache breakpoint of a part; what it has besides is given to ``note``."""
    mark = members.child("prompt_cache_breakpoint")
    if mark is None:
        return None
    mark.one_of("mode", "explicit")
    ttl = mark.one_of("ttl", *_SECONDS)
    note(mark)
    return CacheMark(_SECONDS[ttl] if ttl is not None else None)


def breakpoint_of(cache: CacheMark | None) -> dict[str, object]:
    """The member of a part for ``cache``, none for ``None``."""
    if cache is None:
        return {}
    mark: dict[str, object] = {"mode": "explicit"}
    for ttl, seconds in _SECONDS.items():
        if seconds == cache.seconds:
            mark["ttl"] = ttl
    return {"prompt_cache_breakpoint": mark}
