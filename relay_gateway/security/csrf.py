"""Requests that a browser makes: from where they may come, and for which host."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CSRF_HEADER = "x-relay-csrf"
"""A header that no form can send; it stands for a JSON body where there is another."""
_PORTS = {"http": 80, "https": 443}


def cookie_problem(method: str, headers: Mapping[str, str], origins: Collection[str]) -> str | None:
    """Why a request with a session cookie could have been made by another site, or ``None``.

    ``headers`` have lower-case names; ``origins`` are other origins that are trusted.
    """
    if method in SAFE_METHODS:
        return None
    problem = origin_problem(headers, origins)
    if problem is not None:
        return problem
    if "origin" not in headers and "sec-fetch-site" not in headers:
        return "it has neither `Origin` nor `Sec-Fetch-Site`, by which its origin could be told"
    media_type = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media_type != "application/json" and CSRF_HEADER not in headers:
        return "its body is not `application/json`, as that of a form would be"
    return None


def origin_problem(headers: Mapping[str, str], origins: Collection[str]) -> str | None:
    """Why a request that tells its origin is of another site, or ``None``; also when it does not
    tell, as other programs than browsers do not."""
    origin = headers.get("origin")
    if origin is not None:
        if origin in origins:
            return None
        if not is_same_origin(origin, headers.get("host", "")):
            return "its `Origin` is another one"
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return "its `Sec-Fetch-Site` is not `same-origin`"
    return None


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page of ``origin`` was loaded from ``host``. The scheme is the origin's own word,
    because a proxy in front of the gateway may have ended TLS."""
    page, here = _split(origin), _split(f"//{host}")
    if page is None or here is None or page.scheme not in _PORTS or not page.hostname:
        return False
    default = _PORTS[page.scheme]
    return (page.hostname, page.port or default) == (here.hostname, here.port or default)


def is_allowed_host(host: str, allowed: Collection[str]) -> bool:
    """Whether a ``Host`` header is one of ``allowed``: names, ``*.name`` or ``*``, without
    ports."""
    split = _split(f"//{host}")
    name = (split.hostname if split is not None else None) or ""
    return any(
        entry in ("*", name) or (entry.startswith("*.") and name.endswith(entry[1:]))
        for entry in allowed
    )


def is_address_or_localhost(host: str) -> bool:
    """Whether a ``Host`` header is an address or ``localhost``: what no foreign name server can
    point here (DNS rebinding)."""
    split = _split(f"//{host}")
    name = (split.hostname if split is not None else None) or ""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _split(url: str) -> SplitResult | None:
    try:
        split = urlsplit(url)
        _ = split.port
    except ValueError:
        return None
    return split
