"""The suite for secret backends passes a sound one and names what is wrong with a broken one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError, SecretRefError
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
)
from relay_gateway.testing.conformance import (
    DeniedSecretConformance,
    KnownSecret,
    MissingSecretConformance,
    SecretBackendConformance,
)
from relay_gateway.testing.context import plugin_context

VALUE = "fake-credential-7f3a"
BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "spec.valueFrom", 1)


class DrawerRef(SecretRef):
    kind: Literal["drawer"] = "drawer"
    label: str


class Drawer(SecretBackend[PluginConfig]):
    """Three labels: one known, one locked, all others empty."""

    name = "drawer"
    Ref = DrawerRef

    def check(self, ref: SecretRef) -> None:
        if isinstance(ref, DrawerRef) and "/" in ref.label:
            raise SecretRefError("a label has no '/'", field="label")

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        label = stored.label if isinstance(stored, DrawerRef) else ""
        if label == "locked":
            raise SecretDeniedError("the drawer 'locked' does not open")
        if label != "known":
            raise SecretNotFoundError(f"no drawer is labelled {label!r}")
        return ResolvedSecret(Secret(VALUE), ttl=60)


class TestDrawer(MissingSecretConformance, DeniedSecretConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> SecretBackend:
        return Drawer(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def known(self) -> KnownSecret:
        return KnownSecret(DrawerRef(label="known"), VALUE)

    @pytest.fixture
    def unknown(self) -> SecretRef:
        return DrawerRef(label="empty")

    @pytest.fixture
    def denied(self) -> SecretRef:
        return DrawerRef(label="locked")

    @pytest.fixture
    def refused(self) -> Sequence[SecretRef]:
        return [DrawerRef(label="a/b")]


class Chatty(Drawer):
    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        self.context.logger.debug("found %s", VALUE)
        return await super().resolve(stored, binding)


class Foreign(Drawer):
    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        raise KeyError("empty")


class Vague(Drawer):
    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        if stored == DrawerRef(label="known"):
            return await super().resolve(stored, binding)
        wrong = SecretDeniedError if stored == DrawerRef(label="locked") else SecretNotFoundError
        raise wrong(f"tried {VALUE}")


class Wrapping(Drawer):
    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        try:
            return await super().resolve(stored, binding)
        except SecretNotFoundError as error:
            raise SecretNotFoundError("not here") from ValueError("drawer", VALUE, error)


class Keeping(Drawer):
    StoredRef = DrawerRef


class Misnamed(Drawer):
    name = "cupboard"


KNOWN = KnownSecret(DrawerRef(label="known"), VALUE)
SUITE = SecretBackendConformance()
MISSING = MissingSecretConformance()
DENIED = DeniedSecretConformance()


def drawer(kind: type[Drawer], directory: Path) -> Drawer:
    return kind(PluginConfig(), plugin_context(directory))


async def test_a_backend_that_logs_its_secret_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match="can be read in: log") as caught:
        await SUITE.test_the_secret_is_never_shown(drawer(Chatty, tmp_path), KNOWN, BINDING, caplog)
    assert VALUE not in str(caught.value)


async def test_a_backend_that_raises_what_it_likes_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nothing but SecretError"):
        await MISSING.test_errors_are_those_of_the_contract(
            drawer(Foreign, tmp_path), DrawerRef(label="empty"), BINDING
        )


async def test_a_backend_whose_errors_quote_the_secret_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend = drawer(Vague, tmp_path)
    for suite in (MISSING.test_an_unknown_secret_is_not_found, wrongly_denied):
        with pytest.raises(AssertionError, match="can be read in: error"):
            await suite(backend, KNOWN, DrawerRef(label="empty"), BINDING, caplog)


async def wrongly_denied(
    backend: SecretBackend,
    known: KnownSecret,
    unknown: SecretRef,
    binding: RowBinding,
    caplog: pytest.LogCaptureFixture,
) -> None:
    locked = DrawerRef(label="locked")
    await DENIED.test_a_denied_secret_is_told_from_a_missing_one(
        backend, known, locked, binding, caplog
    )


async def test_a_backend_whose_errors_hide_the_secret_in_their_cause_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match="can be read in: error"):
        await MISSING.test_an_unknown_secret_is_not_found(
            drawer(Wrapping, tmp_path), KNOWN, DrawerRef(label="empty"), BINDING, caplog
        )


def test_a_backend_of_references_to_elsewhere_is_to_be_tested_for_missing_secrets(
    tmp_path: Path,
) -> None:
    check = SUITE.test_it_is_tested_with_missing_secrets_where_they_can_be
    with pytest.raises(AssertionError, match="subclass MissingSecretConformance"):
        check(drawer(Drawer, tmp_path))
    check(drawer(Keeping, tmp_path))
    MISSING.test_it_is_tested_with_missing_secrets_where_they_can_be(drawer(Drawer, tmp_path))


def test_a_backend_under_another_name_than_its_kind_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="called by its name"):
        SUITE.test_the_name_is_the_kind_of_its_references(drawer(Misnamed, tmp_path))
