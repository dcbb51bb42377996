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

AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """A reference as an administrator would write it, and the credential behind it."""

    ref: SecretRef
    value: str


class SecretBackendConformance:
    """Subclass and provide ``backend``, ``known`` and, as far as the backend can, the others.

    Fixtures that arrange the world behind the backend (a server, an environment) do it for
    ``known``, ``unknown`` and ``denied`` together.
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
    def unknown(self) -> SecretRef | None:
        """A kept reference to nothing; ``None`` where that cannot be (the value is in the row)."""
        return None

    @pytest.fixture
    def denied(self) -> SecretRef | None:
        """A kept reference that may not be read; ``None`` where there are no permissions."""
        return None

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

    def test_the_name_is_the_kind_of_its_references(self, backend: SecretBackend) -> None:
        kind = backend.Ref.model_fields["kind"].default
        assert kind == backend.name, f"Ref.kind is {kind!r}, but the backend is called by its name"

    def test_references_refuse_unknown_members(self, backend: SecretBackend) -> None:
        assert backend.Ref.model_config.get("extra") == "forbid", (
            "a misspelt member of valueFrom would be accepted and ignored"
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

    async def test_an_unknown_secret_is_not_found(
        self,
        opened: SecretBackend,
        known: KnownSecret,
        unknown: SecretRef | None,
        binding: RowBinding,
    ) -> None:
        if unknown is None:
            pytest.skip("this backend keeps the value with the reference: none can be missing")
        with pytest.raises(SecretNotFoundError) as caught:
            await opened.resolve(unknown, binding)
        _assert_silent(known, message=str(caught.value))
        resolved = await _resolve(opened, known, binding)
        assert resolved.value.matches(known.value), "one missing secret broke the next one"

    async def test_a_denied_secret_is_told_from_a_missing_one(
        self,
        opened: SecretBackend,
        known: KnownSecret,
        denied: SecretRef | None,
        binding: RowBinding,
    ) -> None:
        if denied is None:
            pytest.skip("this backend knows no permissions")
        with pytest.raises(SecretDeniedError) as caught:
            await opened.resolve(denied, binding)
        _assert_silent(known, message=str(caught.value))

    async def test_inacceptable_references_are_refused_when_written(
        self, opened: SecretBackend, known: KnownSecret, refused: Sequence[SecretRef]
    ) -> None:
        for ref in refused:
            with pytest.raises(SecretRefError) as caught:
                opened.check(ref)
            _assert_silent(known, message=str(caught.value))

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
        _assert_silent(
            known,
            log=caplog.text,
            reference=repr(known.ref),
            backend=repr(opened),
            resolved=f"{resolved!r} {resolved}",
            stored=f"{kept!r} {kept.model_dump_json(by_alias=True)}",
            published=opened.publish(kept).model_dump_json(by_alias=True),
        )

    async def test_errors_are_those_of_the_contract(
        self, opened: SecretBackend, unknown: SecretRef | None, binding: RowBinding
    ) -> None:
        if unknown is None:
            pytest.skip("this backend keeps the value with the reference: none can be missing")
        outcomes = await asyncio.gather(
            *(opened.resolve(unknown, binding) for _ in range(AT_ONCE)), return_exceptions=True
        )
        foreign = [repr(one) for one in outcomes if not isinstance(one, SecretError)]
        assert foreign == [], "resolve() must raise nothing but SecretError and its subclasses"


async def _resolve(
    backend: SecretBackend, known: KnownSecret, binding: RowBinding
) -> ResolvedSecret:
    return await backend.resolve(await backend.seal(known.ref, binding, None), binding)


def _assert_silent(known: KnownSecret, **places: str) -> None:
    # Compared here, so that no assertion prints the secret it found.
    shown = [place for place, text in places.items() if known.value in text]
    if shown:
        raise AssertionError(f"the credential can be read in: {', '.join(shown)}")
