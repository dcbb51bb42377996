"""TLS towards upstreams: verified always, one context per trust store, sessions resumed."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from relay_gateway.errors import UpstreamTlsError

MAX_SESSIONS = 1024


class ResumingContext(ssl.SSLContext):
    """A client context that offers the last session of the same server name.

    asyncio has no parameter for a session; both asyncio and uvloop make their TLS objects with
    :meth:`wrap_bio`, so this is where one can be slipped in.
    """

    sessions: dict[str, ssl.SSLSession]

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT001, FBT002  # the signature is the standard library's
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As in the standard library, with the remembered session unless another is given."""
        if session is None and isinstance(server_hostname, str):
            session = self.sessions.get(server_hostname)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def remember(self, name: str, session: ssl.SSLSession) -> None:
        """Keeps ``session`` for the next connection to ``name``."""
        self.sessions.pop(name, None)
        if len(self.sessions) >= MAX_SESSIONS:
            del self.sessions[next(iter(self.sessions))]
        self.sessions[name] = session


def remember_session(tls: ssl.SSLObject | None) -> None:
    """Keeps the session of a connection that has carried an answer.

    TLS 1.3 servers send their tickets after the handshake, so not before the first answer.
    """
    if tls is None or not isinstance(tls.context, ResumingContext):
        return
    session, name = tls.session, tls.server_hostname
    if session is not None and name is not None:
        tls.context.remember(name, session)


class TlsContexts:
    """Contexts by trust store: the system's, or a CA file, read again when it has changed."""

    def __init__(self) -> None:
        self._contexts: dict[str | None, tuple[int, ResumingContext]] = {}

    async def get(self, ca_file: str | None) -> ResumingContext:
        """The context for ``ca_file`` (``None``: the system's store).

        Raises :class:`UpstreamTlsError` for a file that cannot be read.
        """
        try:
            changed = _changed(ca_file)
            known = self._contexts.get(ca_file)
            if known is not None and known[0] == changed:
                return known[1]
            # Reading the system's store takes tens of milliseconds: not on the loop.
            loop = asyncio.get_running_loop()
            context = await loop.run_in_executor(None, _build, ca_file)
        except (OSError, ValueError) as error:
            raise UpstreamTlsError(
                f"the CA file {ca_file!r} cannot be used: {type(error).__name__}; "
                "tls.caFile must name a readable file of PEM certificates",
                sent=False,
            ) from error
        self._contexts[ca_file] = (changed, context)
        return context


def _changed(ca_file: str | None) -> int:
    return 0 if ca_file is None else Path(ca_file).stat().st_mtime_ns


def _build(ca_file: str | None) -> ResumingContext:
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sessions = {}
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=ca_file)
    return context
