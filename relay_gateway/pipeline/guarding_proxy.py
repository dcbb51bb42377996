"""Guards before requests in proxy mode: they may refuse, and every byte goes on as it came."""

from __future__ import annotations

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.content_decoder import UndecodableError, decoder_for, is_encoded
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.guarding import Guarding
from relay_gateway.pipeline.inspection import MAX_DECODED
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.proxy import INSPECTED_BYTES, Proxy


class GuardedProxy(Proxy):
    """Proxy mode with a second way to prepare a request, for when there are guards."""

    guarding: Guarding | None = None

    def guard(self, guarding: Guarding | None) -> None:
        """Has requests guarded from now on; those that have begun go on as they are."""
        self.guarding = guarding
        self.prepare = self._claim if guarding is None else self._claim_guarded

    async def _claim_guarded(self, call: Call, caller: Caller) -> None:
        await self._claim(call, caller)
        watch = self.guarding.watch(call) if self.guarding is not None else None
        if watch is None:
            return
        beginning = await caller.read_beginning(INSPECTED_BYTES)
        if caller.body_complete and not beginning:
            return
        body = _decoded(caller, beginning) if caller.body_complete else None
        if body is None:
            limit = INSPECTED_BYTES // 1024 // 1024
            reason = f"cannot read a body in this encoding, or of more than {limit} MiB"
            watch.all_unreadable("request", reason)
        else:
            await watch.unchanged(body)


def _decoded(caller: Caller, body: bytes) -> bytes | None:
    """``body`` without its content encoding; ``None`` where that cannot be had."""
    encoding = caller.headers.get(b"content-encoding")
    if not is_encoded(encoding):
        return body
    decoder = decoder_for(encoding, MAX_DECODED)
    if decoder is None:
        return None
    try:
        return decoder.feed(body)
    except (UndecodableError, RequestRefusedError):
        return None
