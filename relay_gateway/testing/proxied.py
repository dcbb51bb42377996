"""Requests in proxy mode as raw bytes, and the settings that allow them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay_gateway.catalog.sections import ProxyMode, RuntimeSettings

PROXY_MODE_ON = RuntimeSettings(proxy_mode=ProxyMode(enabled=True))
Fields = Sequence[tuple[str, str]]


def proxied(
    relay_key: str | None,
    method: str,
    target: str,
    fields: Fields = (),
    body: bytes | None = None,
    *,
    chunks: Iterable[bytes] | None = None,
) -> bytes:
    """A whole request that asks for proxy mode; ``chunks`` is its body where that is chunked."""
    lines = [f"{method} {target} HTTP/1.1", "Host: gateway.test", "X-Relay-Proxy-Mode: Proxy"]
    if relay_key is not None:
        lines.append(f"X-Relay-API-Key: {relay_key}")
    lines += [f"{name}: {value}" for name, value in fields]
    if chunks is not None:
        lines.append("Transfer-Encoding: chunked")
    elif body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join((*lines, "", "")).encode("latin-1")
    return head + (in_chunks(chunks) if chunks is not None else body or b"")


def in_chunks(chunks: Iterable[bytes]) -> bytes:
    """A chunked body, framing and end included."""
    framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk]
    return b"".join((*framed, b"0\r\n\r\n"))
