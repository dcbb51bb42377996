"""What a secret backend promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretRefError,
)
from relay_gateway.ids import new_id
from relay_gateway.plugin import ResolvedSecret, RowBinding, SecretBackend, SecretRef
from relay_gateway.testing.conformance.silence import assert_silent, wording

AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """A reference as an administrator would write it, and the credential behind it."""

    ref: SecretRef
    value: str


class SecretBackendConformance:
    """Subclass and provide ``backend``, ``known`` and, where any are refused, ``refused``.

    More suites are for what a backend may have besides: :class:`MissingSecretConformance` for
    references that lead to something kept elsewhere, :class:`DeniedSecretConformance` for secrets
    that may not be read, ``RemoteSecretConformance`` for a service on the network. Fixtures that
    arrange the world behind the backend (a server, an environment) do it for all of them together.
    """

    @pytest.fixture
    def backend(self) -> SecretBackend:
        """The backend, made but not opened."""
        raise NotImplementedError

    @pytest.fixture
    def known(self) -> KnownSecret:
        """A secret that exists and may be read."""
        raise NotImplementedError

    @pytest.fixture
    def refused(self) -> Sequence[SecretRef]:
        """References that :meth:`SecretBackend.check` must refuse."""
        return ()

    @pytest.fixture
    def binding(self) -> RowBinding:
        """The row that the secret belongs to."""
        return RowBinding("host key", new_id(), "spec.valueFrom", 1)

    @pytest.fixture
    async def opened(self, backend: SecretBackend) -> AsyncIterator[SecretBackend]:
        """The backend between ``aopen`` and ``aclose``."""
        await backend.aopen()
        yield backend
        await backend.aclose()
        await backend.context.aclose()

    def test_the_name_is_the_kind_of_its_references(self, backend: SecretBackend) -> None:
        kind = backend.Ref.model_fields["kind"].default
        assert kind == backend.name, f"Ref.kind is {kind!r}, but the backend is called by its name"

    def test_references_refuse_unknown_members(self, backend: SecretBackend) -> None:
        assert backend.Ref.model_config.get("extra") == "forbid", (
            "a misspelt member of valueFrom would be accepted and ignored"
        )

    def test_it_is_tested_with_missing_secrets_where_they_can_be(
        self, backend: SecretBackend
    ) -> None:
        keeps_the_value = backend.StoredRef is not None
        assert keeps_the_value or isinstance(self, MissingSecretConformance), (
            "its references lead to secrets kept elsewhere, which can be missing there: "
            "subclass MissingSecretConformance"
        )

    async def test_it_bears_being_closed_unopened_and_twice(self, backend: SecretBackend) -> None:
        await backend.aclose()
        await backend.aopen()
        await backend.aclose()
        await backend.aclose()

    async def test_a_known_secret_is_resolved(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> None:
        opened.check(known.ref)
        resolved = await _resolve(opened, known, binding)
        assert resolved.value.matches(known.value), "resolve() gave another value than was stored"
        assert resolved.ttl is None or resolved.ttl > 0, "a ttl is a number of seconds above 0"

    async def test_what_the_catalog_keeps_survives_json(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> None:
        kept = await opened.seal(known.ref, binding, None)
        model = opened.StoredRef or opened.Ref
        again = model.model_validate_json(kept.model_dump_json(by_alias=True))
        resolved = await opened.resolve(again, binding)
        assert resolved.value.matches(known.value), (
            "a reference read back from the database does not lead to the same secret"
        )

    async def test_it_resolves_many_at_once(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> None:
        kept = await opened.seal(known.ref, binding, None)
        resolved = await asyncio.gather(*(opened.resolve(kept, binding) for _ in range(AT_ONCE)))
        assert all(one.value.matches(known.value) for one in resolved)

    async def test_inacceptable_references_are_refused_when_written(
        self, opened: SecretBackend, known: KnownSecret, refused: Sequence[SecretRef]
    ) -> None:
        for ref in refused:
            with pytest.raises(SecretRefError) as caught:
                opened.check(ref)
            assert_silent(known.value, {"error": wording(caught.value)})

    async def test_the_secret_is_never_shown(
        self,
        opened: SecretBackend,
        known: KnownSecret,
        binding: RowBinding,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        kept = await opened.seal(known.ref, binding, None)
        resolved = await opened.resolve(kept, binding)
        assert_silent(
            known.value,
            {
                "log": caplog.text,
                "reference": repr(known.ref),
                "backend": f"{opened!r} {opened.config!r}",
                "resolved": f"{resolved!r} {resolved}",
                "stored": f"{kept!r} {kept.model_dump_json(by_alias=True)}",
                "published": opened.publish(kept).model_dump_json(by_alias=True),
            },
        )


class MissingSecretConformance(SecretBackendConformance):
    """Besides: a reference can lead nowhere. Subclass and provide ``unknown``, too."""

    @pytest.fixture
    def unknown(self) -> SecretRef:
        """A kept reference to nothing."""
        raise NotImplementedError

    async def test_an_unknown_secret_is_not_found(
        self,
        opened: SecretBackend,
        known: KnownSecret,
        unknown: SecretRef,
        binding: RowBinding,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        with pytest.raises(SecretNotFoundError) as caught:
            await opened.resolve(unknown, binding)
        assert_silent(known.value, {"error": wording(caught.value), "log": caplog.text})
        resolved = await _resolve(opened, known, binding)
        assert resolved.value.matches(known.value), "one missing secret broke the next one"

    async def test_errors_are_those_of_the_contract(
        self, opened: SecretBackend, unknown: SecretRef, binding: RowBinding
    ) -> None:
        outcomes = await asyncio.gather(
            *(opened.resolve(unknown, binding) for _ in range(AT_ONCE)), return_exceptions=True
        )
        foreign = [repr(one) for one in outcomes if not isinstance(one, SecretError)]
        assert foreign == [], "resolve() must raise nothing but SecretError and its subclasses"


class DeniedSecretConformance(SecretBackendConformance):
    """Besides: a secret can be there and not be readable. Subclass and provide ``denied``, too."""

    @pytest.fixture
    def denied(self) -> SecretRef:
        """A kept reference that may not be read, or whose content does not open."""
        raise NotImplementedError

    async def test_a_denied_secret_is_told_from_a_missing_one(
        self,
        opened: SecretBackend,
        known: KnownSecret,
        denied: SecretRef,
        binding: RowBinding,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("DEBUG")
        with pytest.raises(SecretDeniedError) as caught:
            await opened.resolve(denied, binding)
        assert_silent(known.value, {"error": wording(caught.value), "log": caplog.text})
        resolved = await _resolve(opened, known, binding)
        assert resolved.value.matches(known.value), "one denied secret broke the next one"


class SealingConformance(SecretBackendConformance):
    """Besides: the backend ``seals`` values with the master keys of its context.

    Subclass and provide ``rotated``, too: the same backend after a rotation.
    """

    @pytest.fixture
    def rotated(self) -> SecretBackend:
        """The backend with another master key in front of those of ``backend``, not opened."""
        raise NotImplementedError

    def test_it_says_that_it_seals(self, backend: SecretBackend) -> None:
        assert backend.seals, "its values would never be sealed anew with another master key"

    async def test_what_it_keeps_names_its_key(
        self, opened: SecretBackend, known: KnownSecret, binding: RowBinding
    ) -> None:
        kept = await opened.seal(known.ref, binding, None)
        document = kept.model_dump(mode="json", by_alias=True)
        assert document.get("keyId") == opened.key_ids()[0], (
            "what the catalog keeps must name the key that sealed it, which is the first one"
        )

    async def test_a_value_is_wrapped_anew_with_the_next_key(
        self,
        opened: SecretBackend,
        rotated: SecretBackend,
        known: KnownSecret,
        binding: RowBinding,
    ) -> None:
        await rotated.aopen()
        try:
            current, *older = rotated.key_ids()
            assert older == list(opened.key_ids()), "one key has one id, wherever it stands"
            kept = await opened.seal(known.ref, binding, None)
            value = (await rotated.resolve(kept, binding)).value
            again = await rotated.wrap(value, binding, kept)
            assert again.model_dump(by_alias=True)["keyId"] == current
            assert (await rotated.resolve(again, binding)).value.matches(known.value)
            with pytest.raises(SecretDeniedError):
                await opened.resolve(again, binding)
        finally:
            await rotated.aclose()

    async def test_ids_of_keys_tell_nothing(
        self, opened: SecretBackend, caplog: pytest.LogCaptureFixture
    ) -> None:
        for key, key_id in zip(opened.context.master_keys, opened.key_ids(), strict=True):
            assert_silent(key.reveal(), {"id": key_id, "log": caplog.text})


async def _resolve(
    backend: SecretBackend, known: KnownSecret, binding: RowBinding
) -> ResolvedSecret:
    return await backend.resolve(await backend.seal(known.ref, binding, None), binding)
