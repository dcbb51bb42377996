"""The dashboard: the files under ``/ui/``, which a browser makes a program of.

They are public, for they hold nothing but the program: whatever it shows it asks the control API
for, as any other client does. The page names its files with the version of all of them in their
addresses, so that a browser which has them asks for none again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from relay_gateway.control.problems import RefusedError

ROOT = "/ui/"
FILES = Path(__file__).parent / "ui"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing but files of the dashboard runs, nothing in a page is ever parsed as HTML, and nothing is
fetched from or sent to anywhere else."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Vary": "Accept-Encoding",
}
_ASKED_FOR = "no-cache"
"""Each time, and answered by 304 where it is known: a new version is seen at the next load."""
_KEPT = "public, max-age=31536000, immutable"
"""What has its version in its address is never another."""


class Asset(msgspec.Struct, frozen=True):
    """One file, as it is sent."""

    content: bytes
    compressed: bytes
    content_type: str
    etag: str


def is_dashboard(path: str) -> bool:
    """Whether a path of the control plane belongs to the dashboard."""
    return path in ("/", "/ui") or path.startswith(ROOT)


async def serve_dashboard(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request whose path :func:`is_dashboard`.

    A path that names no file is a view, which the page itself finds. Raises :class:`RefusedError`.
    """
    path: str = scope["path"]
    if scope["method"] not in ("GET", "HEAD"):
        raise RefusedError(405, "method_not_allowed", "the dashboard is only read")
    if not path.startswith(ROOT):
        await RedirectResponse(ROOT, 307)(scope, receive, send)
        return
    assets = await asyncio.to_thread(read_assets)
    name = path.removeprefix(ROOT)
    known = name.removeprefix(f"{version()}/")
    asset = assets.get(known)
    if asset is None and "." in name.rpartition("/")[2]:
        raise RefusedError(404, "not_found", f"the dashboard has no file {name!r}")
    caching = _KEPT if asset and known != name else _ASKED_FOR
    answer = _answer(asset or assets["index.html"], Headers(scope=scope), caching)
    await answer(scope, receive, send)


@cache
def read_assets() -> Mapping[str, Asset]:
    """Every file of the dashboard by its path below ``/ui/``."""
    contents = dict(_contents())
    page = contents["index.html"]
    contents["index.html"] = page.replace(b'="/ui/', f'="{ROOT}{version()}/'.encode())
    return {name: _asset(name, content) for name, content in contents.items()}


@cache
def version() -> str:
    """What the addresses of the files say; another one as soon as a byte of any file is."""
    digest = hashlib.sha256()
    for name, content in _contents():
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def _contents() -> Iterator[tuple[str, bytes]]:
    for file in sorted(FILES.rglob("*")):
        if file.suffix in _TYPES:
            yield file.relative_to(FILES).as_posix(), file.read_bytes()


def _asset(name: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()
    kind = _TYPES[Path(name).suffix]
    return Asset(content, gzip.compress(content, 9, mtime=0), kind, f'"{digest}"')


def _answer(asset: Asset, headers: Headers, caching: str) -> Response:
    known = {**_HEADERS, "Cache-Control": caching, "ETag": asset.etag}
    if asset.etag in headers.get("if-none-match", ""):
        return Response(None, 304, known)
    known["Content-Type"] = asset.content_type
    if "gzip" in headers.get("accept-encoding", ""):
        known["Content-Encoding"] = "gzip"
        return Response(asset.compressed, 200, known)
    return Response(asset.content, 200, known)
