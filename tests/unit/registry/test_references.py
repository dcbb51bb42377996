"""References to credentials in the sections of plugins: which are followed, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import pytest

from relay_gateway.errors import (
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
)
from relay_gateway.redaction import LIVE
from relay_gateway.registry.references import resolve_reference
from relay_gateway.testing.context import plugin_context

VALUE = "canary-5f1c9e7d2b-4a4a"


class AcmeRef(SecretRef):
    kind: Literal["acme"] = "acme"
    path_name: str


class Acme(SecretBackend[PluginConfig]):
    """Answers as the name of the path says."""

    name: ClassVar[str] = "acme"
    Ref = AcmeRef
    StoredRef: ClassVar[type[SecretRef] | None] = None

    def check(self, ref: SecretRef) -> None:
        if isinstance(ref, AcmeRef) and ref.path_name == "forbidden":
            raise SecretRefError("not this one", field="pathName")

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        assert isinstance(stored, AcmeRef)
        match stored.path_name:
            case "absent":
                raise SecretNotFoundError("it is not there")
            case "broken":
                raise KeyError(VALUE)
            case _:
                return ResolvedSecret(Secret(VALUE), 60.0)


class Keeper(Acme):
    """Keeps values in the catalog."""

    name: ClassVar[str] = "keeper"
    seals: ClassVar[bool] = True


@pytest.fixture
def backends(tmp_path: Path) -> dict[str, SecretBackend]:
    context = plugin_context(tmp_path)
    return {one.name: one(PluginConfig(), context) for one in (Acme, Keeper)}


async def test_a_reference_leads_to_a_credential_that_no_log_shows(
    backends: dict[str, SecretBackend],
) -> None:
    found = await resolve_reference(backends, {"kind": "acme", "pathName": "a"}, "s3")
    assert found.value.reveal() == VALUE
    assert found.ttl == 60.0
    assert VALUE not in LIVE.scrub(f"it is {VALUE}", "-")


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ({}, "no configured secret backend is called None; there are: acme$"),
        ({"kind": ["acme"]}, "is called"),
        ({"kind": "vault"}, "'vault'; there are: acme$"),
        ({"kind": "keeper", "pathName": "a"}, "'keeper' keeps values in the catalog"),
        ({"kind": "acme"}, "pathName: field required"),
        ({"kind": "acme", "pathName": "a", "token": VALUE}, "token: extra inputs"),
        ({"kind": "acme", "pathName": "forbidden"}, "not this one"),
    ],
    ids=str,
)
async def test_a_reference_that_cannot_be_followed_is_refused(
    backends: dict[str, SecretBackend], reference: dict[str, object], told: str
) -> None:
    with pytest.raises(SecretRefError, match=told) as error:
        await resolve_reference(backends, reference, "s3")
    assert VALUE not in str(error.value)


async def test_what_a_backend_says_is_passed_on(backends: dict[str, SecretBackend]) -> None:
    with pytest.raises(SecretNotFoundError, match="it is not there"):
        await resolve_reference(backends, {"kind": "acme", "pathName": "absent"}, "s3")


async def test_a_backend_that_breaks_is_one_that_cannot_be_asked(
    backends: dict[str, SecretBackend],
) -> None:
    with pytest.raises(SecretUnavailableError, match="'acme' failed with KeyError") as told:
        await resolve_reference(backends, {"kind": "acme", "pathName": "broken"}, "s3")
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


async def test_a_context_without_backends_says_so(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailableError, match="'acme' could be asked of"):
        await plugin_context(tmp_path).resolve_secret({"kind": "acme"})
