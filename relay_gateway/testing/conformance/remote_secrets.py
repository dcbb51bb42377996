"""What a secret backend promises whose secrets are kept by a service on the network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from relay_gateway.errors import SecretError, SecretUnavailableError
from relay_gateway.log import Redactor
from relay_gateway.pipeline.credentials import DEADLINE, Credentials
from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretBackend, SecretRef
from relay_gateway.testing.conformance.secrets import (
    DeniedSecretConformance,
    KnownSecret,
    MissingSecretConformance,
)
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.faultproxy import Fault, FaultProxy

CALLERS = 100
FLAPS = 3
HANGING = 3
LATENCY = 0.05


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """The service behind a backend: ``link`` is what all connections to it go through, ``change``
    gives the known secret another value, ``logins`` are the credentials that the backend itself
    uses, those that the service gave it included."""

    link: FaultProxy
    change: Callable[[str], Awaitable[None]]
    logins: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class HostKey:
    """Where a host key's credential comes from."""

    backend: str
    stored: SecretRef
    binding: RowBinding

    @property
    def id(self) -> str:
        """The row's."""
        return self.binding.id


class RemoteSecretConformance(MissingSecretConformance, DeniedSecretConformance):
    """Besides: the service can be slow, hang, come and go, and its secrets change.

    Subclass and provide ``store``, too. ``backend`` must ask through ``store.link``, with timeouts
    of a second or two where it has settings for them.
    """

    @pytest.fixture
    def store(self) -> RemoteStore:
        """The service, with ``known`` in it."""
        raise NotImplementedError

    @pytest.fixture
    def fetch(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> Callable[[], Awaitable[ResolvedSecret]]:
        """Resolves the known secret."""
        return partial(opened.resolve, known.ref, binding)

    async def test_f52_a_changed_secret_is_seen_by_the_next_fetch(
        self,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
        known: KnownSecret,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        before = await fetch()
        changed = f"{known.value[::-1]}-next"
        await store.change(changed)
        after = await fetch()
        assert after.value.matches(changed), "resolve() gave a value that the service has no more"
        assert before.version is None or before.version != after.version, (
            "the version of a secret tells one value from the next"
        )
        assert_silent(changed, {"log": caplog.text})

    async def test_f52_a_slow_store_is_waited_for(
        self,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
        known: KnownSecret,
    ) -> None:
        store.link.to_client = Fault(latency=LATENCY)
        assert (await fetch()).value.matches(known.value)

    async def test_f52_a_hanging_store_holds_up_nothing_but_its_own_secrets(
        self,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
        known: KnownSecret,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        store.link.to_client = store.link.to_server = Fault(blackhole=True)
        hanging = [asyncio.ensure_future(fetch()) for _ in range(HANGING)]
        await _assert_loop_runs()
        async with asyncio.timeout(DEADLINE):
            errors = await asyncio.gather(*hanging, return_exceptions=True)
        assert all(isinstance(error, SecretUnavailableError) for error in errors), (
            f"its own timeouts must be shorter than the gateway's {DEADLINE:g} s: {errors}"
        )
        assert_silent(known.value, _shown(errors, caplog))
        store.link.clear()
        store.link.cut()
        assert (await fetch()).value.matches(known.value), "it does not recover from a hang"

    async def test_f52_a_caller_that_stops_waiting_stops_at_once(
        self,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
        known: KnownSecret,
    ) -> None:
        store.link.to_client = Fault(blackhole=True)
        waiting = asyncio.ensure_future(fetch())
        await _assert_loop_runs()
        waiting.cancel()
        done, _ = await asyncio.wait({waiting}, timeout=0.25)
        assert done, "a cancelled resolve() must not wait for the service"
        store.link.clear()
        store.link.cut()
        assert (await fetch()).value.matches(known.value), "a cancelled fetch broke the next one"

    async def test_f52_a_store_that_comes_and_goes_is_used_whenever_it_is_there(
        self,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
        known: KnownSecret,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        for _ in range(FLAPS):
            store.link.refuse = True
            store.link.cut()
            with pytest.raises(SecretUnavailableError) as caught:
                await fetch()
            assert_silent(known.value, _shown([caught.value], caplog))
            store.link.clear()
            assert (await fetch()).value.matches(known.value)

    async def test_f52_a_hundred_callers_are_one_fetch(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> None:
        credentials = Credentials({opened.name: opened}, opened.context.clock)
        key = HostKey(opened.name, known.ref, binding)
        secrets = await asyncio.gather(*(credentials.get(key) for _ in range(CALLERS)))
        assert all(secret.matches(known.value) for secret in secrets)
        assert credentials.fetches == {(opened.name, "ok"): 1}
        await credentials.aclose()

    async def test_t11_what_it_logs_in_with_is_hidden_from_logs(
        self, fetch: Callable[[], Awaitable[ResolvedSecret]], store: RemoteStore
    ) -> None:
        await fetch()
        logins = store.logins()
        assert logins, "the store must tell what the backend logs in with"
        for value in logins:
            logged = Redactor()(f"a library says {value}")
            assert_silent(value, {"a library's log, after context.hide()": logged})

    async def test_closing_does_not_wait_for_the_store(
        self,
        opened: SecretBackend,
        fetch: Callable[[], Awaitable[ResolvedSecret]],
        store: RemoteStore,
    ) -> None:
        await fetch()
        store.link.to_client = store.link.to_server = Fault(blackhole=True)
        waiting = asyncio.ensure_future(fetch())
        await _assert_loop_runs()
        async with asyncio.timeout(1.0):
            await opened.aclose()
        with pytest.raises(SecretError):
            await waiting


async def _assert_loop_runs() -> None:
    """Turns the loop a hundred times, each within a second: nothing blocks it meanwhile, though
    threads may compete with it for the interpreter."""
    loop = asyncio.get_running_loop()
    for _ in range(CALLERS):
        began = loop.time()
        await asyncio.sleep(0.001)
        assert loop.time() - began < 1.0, "the event loop was blocked"


def _shown(
    errors: list[ResolvedSecret | BaseException] | list[SecretUnavailableError],
    caplog: pytest.LogCaptureFixture,
) -> dict[str, str]:
    told = [wording(error) for error in errors if isinstance(error, BaseException)]
    return {"errors": "\n".join(told), "log": caplog.text}
