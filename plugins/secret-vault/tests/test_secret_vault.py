"""What the Vault backend reads, and how it words what it cannot read."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.errors import (
    SecretDeniedError,
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import RowBinding, SecretRef
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway_secret_vault import (
    VaultConfig,
    VaultRef,
    VaultSecrets,
    relay_register_secret_backends,
)

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"
ADDRESS = "http://127.0.0.1:8200"


def ref(path: str, key: str = "api_key", **members: Any) -> VaultRef:
    return VaultRef.model_validate({"path": path, "key": key, **members})


@pytest.fixture
async def mounts(peer: Any) -> dict[int, str]:
    """An empty engine of each version."""
    made = {1: "one/kv", 2: "two/kv"}
    for version, name in made.items():
        await asyncio.to_thread(peer.mount, name, version)
    return made


@pytest.fixture
async def backend(make: Any, peer: Any, mounts: dict[int, str]) -> VaultSecrets:
    opened: VaultSecrets = make(peer.url, mounts=list(mounts.values()))
    await opened.aopen()
    return opened


@pytest.mark.parametrize("version", [1, 2])
async def test_a_key_of_a_secret_is_read_from_the_mount_that_the_reference_names(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets, version: int
) -> None:
    await asyncio.to_thread(
        peer.put, mounts[version], version, "team/a key", **{"api.key": CANARY, "other": "no"}
    )
    resolved = await backend.resolve(ref("team/a key", "api.key", mount=mounts[version]), BINDING)
    assert resolved.value.matches(CANARY)
    assert resolved.version == {1: None, 2: "1"}[version]
    assert resolved.ttl is None


async def test_the_first_mount_is_that_of_references_without_one(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets
) -> None:
    await asyncio.to_thread(peer.put, mounts[1], 1, "here", api_key=CANARY)
    assert (await backend.resolve(ref("here"), BINDING)).value.matches(CANARY)


async def test_a_version_is_read_where_there_are_versions(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets
) -> None:
    for value in ("the-first-value", "the-second-value"):
        await asyncio.to_thread(peer.put, mounts[2], 2, "acme", api_key=value)
    first = await backend.resolve(ref("acme", mount=mounts[2], version=1), BINDING)
    newest = await backend.resolve(ref("acme", mount=mounts[2]), BINDING)
    assert (first.version, newest.version) == ("1", "2")
    assert first.value.matches("the-first-value")
    assert newest.value.matches("the-second-value")
    with pytest.raises(SecretNotFoundError, match="version 7"):
        await backend.resolve(ref("acme", mount=mounts[2], version=7), BINDING)
    await asyncio.to_thread(peer.put, mounts[1], 1, "acme", api_key=CANARY)
    with pytest.raises(SecretDeniedError, match="keeps no versions"):
        await backend.resolve(ref("acme", version=1), BINDING)


async def test_a_deleted_secret_is_not_found(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets
) -> None:
    await asyncio.to_thread(peer.put, mounts[2], 2, "gone", api_key=CANARY)
    with peer.client() as client:
        client.secrets.kv.v2.delete_latest_version_of_secret("gone", mount_point=mounts[2])
    with pytest.raises(SecretNotFoundError, match="does not exist or is deleted"):
        await backend.resolve(ref("gone", mount=mounts[2]), BINDING)


async def test_a_key_that_is_missing_or_no_string_is_told_apart(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets
) -> None:
    await asyncio.to_thread(peer.put, mounts[2], 2, "acme", **{CANARY: "x", "number": 5})
    with pytest.raises(SecretNotFoundError, match="no such key") as caught:
        await backend.resolve(ref("acme", mount=mounts[2]), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})
    with pytest.raises(SecretDeniedError, match="is no string"):
        await backend.resolve(ref("acme", "number", mount=mounts[2]), BINDING)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX-Other: 1", f"{CANARY}\t", "schlüssel"])
async def test_t22_a_value_that_is_no_header_value_is_refused_without_being_shown(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets, value: str
) -> None:
    await asyncio.to_thread(peer.put, mounts[2], 2, "acme", api_key=value)
    with pytest.raises(SecretDeniedError, match="cannot be a host key") as caught:
        await backend.resolve(ref("acme", mount=mounts[2]), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})


async def test_the_ttl_of_a_kv_1_secret_is_its_lifetime(
    peer: Any, mounts: dict[int, str], backend: VaultSecrets
) -> None:
    await asyncio.to_thread(peer.put, mounts[1], 1, "short", api_key=CANARY, ttl="90s")
    assert (await backend.resolve(ref("short"), BINDING)).ttl == 90


async def test_an_engine_that_was_replaced_by_one_of_another_version_is_read_anew(
    make: Any, peer: Any
) -> None:
    await asyncio.to_thread(peer.mount, "replaced", 1)
    await asyncio.to_thread(peer.put, "replaced", 1, "acme", api_key="the-first-value")
    secrets = make(peer.url, mounts=["replaced"])
    await secrets.aopen()
    await secrets.resolve(ref("acme"), BINDING)
    await asyncio.to_thread(peer.mount, "replaced", 2)
    await asyncio.to_thread(peer.put, "replaced", 2, "acme", api_key="the-second-value")
    with pytest.raises(SecretNotFoundError):
        await secrets.resolve(ref("acme"), BINDING)
    assert (await secrets.resolve(ref("acme"), BINDING)).value.matches("the-second-value")


async def test_a_configured_version_needs_no_question(fake: Any, make: Any) -> None:
    secrets = make(fake.url, kv_version=2)
    await secrets.aopen()
    assert (await secrets.resolve(ref("acme"), BINDING)).value.matches(CANARY)
    assert not any("ui/mounts" in path for path in fake.requests)


async def test_leases_of_other_engines_are_honoured(fake: Any, make: Any, peer: Any) -> None:
    with type(peer)(fake.url).client() as client:
        client.sys.enable_secrets_engine("acme", path="leased", options={"lease": "45"})
    secrets = make(fake.url, mounts=["leased"])
    await secrets.aopen()
    first = await secrets.resolve(ref("creds/gateway"), BINDING)
    second = await secrets.resolve(ref("creds/gateway"), BINDING)
    assert first.ttl == second.ttl == 45
    assert second.value.matches("leased-value-2")


async def test_t08_a_mount_that_is_not_listed_is_refused_now_and_later(
    make: Any, fake: Any
) -> None:
    secrets = make(fake.url, mounts=["secret"])
    await secrets.aopen()
    other = ref("acme", mount="other")
    with pytest.raises(SecretRefError, match="not on the list") as caught:
        await secrets.seal(other, BINDING, None)
    assert caught.value.field == "mount"
    with pytest.raises(SecretDeniedError, match="not on the list"):
        await secrets.resolve(other, BINDING)


@pytest.mark.parametrize("mount", ["auth/token", "sys", "team/sys", "cubbyhole", "identity/oidc"])
def test_t08_paths_of_vault_itself_are_no_mounts(mount: str) -> None:
    with pytest.raises(ValidationError, match="no mount of a secrets engine"):
        VaultConfig.model_validate({"address": ADDRESS, "mounts": [mount]})
    with pytest.raises(ValidationError, match="no mount of a secrets engine"):
        ref("lookup-self", "id", mount=mount)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/acme",
        "acme/",
        "a//b",
        "../../auth/token/lookup-self",
        "a/../b",
        "a/.",
        "a?version=1",
        "a#b",
        "a%2e%2e/b",
        "a\nb",
        "a\\..\\b",
        "x" * 513,
    ],
)
def test_t08_a_path_stays_below_its_mount(path: str) -> None:
    with pytest.raises(ValidationError):
        ref(path)


async def test_before_it_is_open_it_says_so(make: Any) -> None:
    with pytest.raises(SecretUnavailableError, match="is not open"):
        await make(ADDRESS).resolve(ref("acme"), BINDING)


async def test_a_reference_of_another_kind_is_refused(make: Any) -> None:
    class Other(SecretRef):
        kind: str = "other"

    with pytest.raises(SecretRefError, match="is not one to Vault"):
        await make(ADDRESS).resolve(Other(), BINDING)


def test_installing_it_costs_no_import_of_the_library() -> None:
    code = "import sys, relay_gateway_secret_vault; print({'hvac', 'requests'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_it_registers_one_backend() -> None:
    assert list(relay_register_secret_backends()) == [VaultSecrets]


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"address": "vault:8200"}, "address"),
        ({}, "address"),
        ({"address": f"http://user:{CANARY}@127.0.0.1:8200"}, "address"),
        ({"address": ADDRESS, "auth": "approle"}, "needs role_id"),
        ({"address": ADDRESS, "auth": "kubernetes"}, "needs role"),
        ({"address": ADDRESS, "auth": "jwt", "role": "x"}, "needs jwt_file"),
        ({"address": ADDRESS, "mounts": []}, "mounts"),
        ({"address": ADDRESS, "kv_version": 3}, "kv_version"),
        ({"address": ADDRESS, "tokn": CANARY}, "tokn"),
    ],
)
def test_a_bad_section_names_the_key_and_shows_no_secret(
    section: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told) as caught:
        VaultConfig.model_validate(section)
    assert CANARY not in str(caught.value)


def test_every_member_of_a_reference_is_described_for_a_form() -> None:
    members = VaultRef.model_json_schema(by_alias=True)["properties"]
    assert set(members) == {"kind", "mount", "path", "key", "version"}
    assert all(member.get("description") for name, member in members.items() if name != "kind")
