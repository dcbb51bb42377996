"""The gateway's own request headers: tags, pinned host, deadline, ids of the client."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers

MAX_TAGS = 16
MAX_TAG_NAME = 64
MAX_TAG_VALUE = 256
MAX_CLIENT_REQUEST_ID = 128
MAX_USER_AGENT = 256
MAX_TIMEOUT = 86_400.0


class GatewayHeaders(msgspec.Struct, frozen=True):
    """What a caller told the gateway itself. ``timeout`` is in seconds."""

    tags: dict[str, str] = msgspec.field(default_factory=dict)
    pin: str | None = None
    timeout: float | None = None
    proxy_mode: bool = False


NONE = GatewayHeaders()


class HeaderReader:
    """Reads the gateway's headers under each of the accepted prefixes."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        lower = [prefix.lower() for prefix in prefixes]
        self._tags = [f"{prefix}request-tags".encode() for prefix in lower]
        self._pin = [f"{prefix}upstream-host".encode() for prefix in lower]
        self._timeout = [f"{prefix}request-timeout".encode() for prefix in lower]
        self._proxy = [f"{prefix}proxy-mode".encode() for prefix in lower]
        self._all = frozenset((*self._tags, *self._pin, *self._timeout, *self._proxy))
        self._proxy_names = frozenset(self._proxy)

    def read(self, headers: Headers) -> GatewayHeaders:
        """All of them; raises :class:`RequestRefusedError` (400) naming the bad one."""
        if not headers.has_any(self._all):  # as in nearly every request
            return NONE
        tags, pin, timeout = (
            _first(headers, names) for names in (self._tags, self._pin, self._timeout)
        )
        return GatewayHeaders(
            tags=_tags(tags) if tags is not None else {},
            pin=pin.decode("latin-1") if pin is not None else None,
            timeout=_timeout(timeout) if timeout is not None else None,
            proxy_mode=self._asks_for_proxy_mode(headers),
        )

    def names_proxy_mode(self, headers: Headers) -> bool:
        """Whether the header that asks for proxy mode is there, whatever it says."""
        return headers.has_any(self._proxy_names)

    def _asks_for_proxy_mode(self, headers: Headers) -> bool:
        mode = _first(headers, self._proxy)
        if mode is not None and mode.lower() != b"proxy":
            raise _bad("proxy-mode", "the only proxy mode is 'Proxy'")
        return mode is not None


def _first(headers: Headers, names: Sequence[bytes]) -> bytes | None:
    for name in names:
        value = headers.get(name)
        if value is not None:
            return value
    return None


def _tags(value: bytes) -> dict[str, str]:
    try:
        tags = msgspec.json.decode(value, type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _bad("request-tags", "must be a JSON object of strings") from None
    if len(tags) > MAX_TAGS:
        raise _bad("request-tags", f"has {len(tags)} tags, at most {MAX_TAGS} are kept")
    for name, text in tags.items():
        if not 0 < len(name) <= MAX_TAG_NAME or len(text) > MAX_TAG_VALUE:
            raise _bad(
                "request-tags",
                f"names have 1 to {MAX_TAG_NAME} characters, values at most {MAX_TAG_VALUE}",
            )
        if not (name.isprintable() and text.isprintable()):
            raise _bad("request-tags", "must not contain control characters")
    return tags


def _timeout(value: bytes) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= MAX_TIMEOUT:
        raise _bad("request-timeout", f"must be a number of seconds from 0 to {MAX_TIMEOUT:g}")
    return seconds


def client_request_id(headers: Headers) -> str | None:
    """The caller's own id of the request: at most 128 visible ASCII characters, else ignored."""
    value = headers.get(b"x-request-id")
    if value is None or len(value) > MAX_CLIENT_REQUEST_ID:
        return None
    text = value.decode("latin-1")
    return text if text.isascii() and text.isprintable() and " " not in text else None


def user_agent(headers: Headers) -> str | None:
    """What the caller says it is, without control characters and at most 256 of it."""
    value = headers.get(b"user-agent")
    if value is None:
        return None
    text = value[:MAX_USER_AGENT].decode("latin-1")
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def _bad(name: str, problem: str) -> RequestRefusedError:
    return RequestRefusedError(400, "invalid_request", f"header {name}: {problem}", param=name)
