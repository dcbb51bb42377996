"""Attempts that did not succeed: what they were, and what a caller is told of the last one."""

from __future__ import annotations

import random

import msgspec

from relay_gateway.errors import (
    EgressProxyError,
    RequestRefusedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
    UpstreamTlsError,
)
from relay_gateway.http.message import Headers
from relay_gateway.plugin.providers import Classification, Scope, Verdict
from relay_gateway.plugin.wire import Problem, WireFormat


class Refusal(msgspec.Struct, frozen=True):
    """An answer of an upstream that is not a success, read whole.

    ``wire_format`` is what it was asked in; ``problem`` is what it said where that was no answer of
    its own but the first event of a stream. The body of one that is not ``legible`` is not shown.
    """

    status: int
    headers: Headers
    body: bytes
    classification: Classification
    wire_format: WireFormat
    problem: Problem | None = None
    legible: bool = True


class NoAnswer(msgspec.Struct, frozen=True):
    """An attempt that got no answer at all."""

    error: UpstreamError


class RedirectedError(UpstreamError):
    """The upstream answered with a redirect; none is ever followed."""

    reason = "upstream_redirect"


class AdapterFailedError(UpstreamError):
    """A provider plugin raised while it built a request or read an answer."""

    reason = "adapter_failed"


_NOT_THE_HOST = (UpstreamOverloadedError, AdapterFailedError, RedirectedError)


def refusal_of(error: UpstreamError) -> RequestRefusedError:
    """What a caller is told when the last attempt got no answer; never an address."""
    if isinstance(error, UpstreamTimeoutError) and error.phase != "connect":
        return RequestRefusedError(504, error.reason, "the upstream did not answer in time")
    if isinstance(error, UpstreamOverloadedError):
        return RequestRefusedError(
            503,
            error.reason,
            "too many requests are waiting for this host",
            retry_after=random.uniform(1.0, 3.0),  # noqa: S311 - jitter
        )
    if isinstance(error, EgressProxyError):
        return RequestRefusedError(
            502, error.reason, "the egress proxy of this host did not connect the gateway to it"
        )
    if isinstance(error, UpstreamConnectError | UpstreamTimeoutError):
        return RequestRefusedError(
            502, UpstreamConnectError.reason, "the upstream could not be reached"
        )
    if isinstance(error, AdapterFailedError | RedirectedError):
        return RequestRefusedError(502, error.reason, str(error))
    return RequestRefusedError(502, error.reason, "the upstream did not give a valid answer")


def concealed(refusal: Refusal) -> RequestRefusedError:
    """The upstream's refusal with its status and, where there is one, the time to wait; the body is
    the gateway's own."""
    wait = refusal.headers.get(b"retry-after")
    return RequestRefusedError(
        refusal.status,
        "upstream_error",
        f"the upstream refused the request with status {refusal.status}",
        headers=((b"retry-after", wait),) if wait is not None else (),
    )


def is_about_the_key(result: Refusal | NoAnswer) -> bool:
    """Whether the attempt failed for the key's sake: turning to another one is not a retry."""
    if not isinstance(result, Refusal) or result.classification.scope is Scope.HOST:
        return False
    return result.classification.verdict in (Verdict.CREDENTIAL, Verdict.THROTTLED)


def is_about_the_answer(error: UpstreamError) -> bool:
    """Whether an answer that broke off for ``error`` says that its host fails. One that only took
    longer than it was given does not."""
    if isinstance(error, UpstreamTimeoutError) and error.phase == "total":
        return False
    return not isinstance(error, _NOT_THE_HOST)


def is_unreachable(error: UpstreamError) -> bool:
    """Whether the host could not be connected to, which nothing in a request can bring about."""
    if isinstance(error, UpstreamTimeoutError):
        return error.phase == "connect"
    return isinstance(error, UpstreamConnectError | UpstreamTlsError)


def is_about_the_host(result: Refusal | NoAnswer) -> bool:
    """Whether the attempt says that the host fails, rather than a key, the request or the gateway
    itself."""
    if isinstance(result, NoAnswer):
        return not isinstance(result.error, _NOT_THE_HOST)
    verdict, scope = result.classification.verdict, result.classification.scope
    return verdict is Verdict.FAILURE or (verdict is Verdict.THROTTLED and scope is Scope.HOST)
