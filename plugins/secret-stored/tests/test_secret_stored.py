"""The stored backend: round trip, key ring, and what it refuses."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from relay_gateway.errors import (
    PluginLoadError,
    SecretDeniedError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import PluginConfig, RowBinding, Secret, SecretRef
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import master_key, plugin_context
from relay_gateway_secret_stored import (
    PublicRef,
    SealedRef,
    StoredSecrets,
    ValueRef,
    relay_register_secret_backends,
)

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"
OLD, NEW = master_key("old"), master_key("new")


async def opened(directory: Path, *keys: Secret, clock: FakeClock | None = None) -> StoredSecrets:
    secrets = StoredSecrets(
        PluginConfig(),
        plugin_context(directory, plugin="stored", master_keys=keys, clock=clock),
    )
    await secrets.aopen()
    return secrets


def written(value: str) -> ValueRef:
    return ValueRef(value=SecretStr(value))


async def sealed_by(secrets: StoredSecrets, value: str = CANARY) -> SealedRef:
    sealed = await secrets.seal(written(value), BINDING, None)
    assert isinstance(sealed, SealedRef)
    return sealed


async def test_a_value_comes_back_for_its_row(tmp_path: Path) -> None:
    secrets = await opened(tmp_path, OLD)
    sealed = await sealed_by(secrets)
    assert (await secrets.resolve(sealed, BINDING)).value.matches(CANARY)


async def test_what_the_catalog_keeps_survives_json(tmp_path: Path) -> None:
    secrets = await opened(tmp_path, OLD)
    kept = (await sealed_by(secrets)).model_dump_json(by_alias=True)
    again = SealedRef.model_validate_json(kept)
    assert (await secrets.resolve(again, BINDING)).value.matches(CANARY)


async def test_reads_show_the_key_id_and_the_time_only(tmp_path: Path) -> None:
    clock = FakeClock()
    secrets = await opened(tmp_path, OLD, clock=clock)
    sealed = await sealed_by(secrets)
    shown = json.loads(secrets.publish(sealed).model_dump_json(by_alias=True))
    assert shown == {
        "kind": "stored",
        "keyId": sealed.key_id,
        "updatedAt": "2026-01-01T00:00:00Z",
    }


async def test_t62_each_sealing_has_its_own_key_and_nonces(tmp_path: Path) -> None:
    secrets = await opened(tmp_path, OLD)
    first, second = await sealed_by(secrets), await sealed_by(secrets)
    for field in ("nonce", "ciphertext", "key_nonce", "wrapped_key"):
        assert getattr(first, field) != getattr(second, field)
    assert len(base64.b64decode(first.nonce)) == len(base64.b64decode(first.key_nonce)) == 12


async def test_an_update_without_value_keeps_what_is_there(tmp_path: Path) -> None:
    secrets = await opened(tmp_path, OLD)
    sealed = await sealed_by(secrets)
    shown = secrets.publish(sealed).model_dump(by_alias=True)
    kept = await secrets.seal(ValueRef.model_validate(shown), BINDING, sealed)
    assert kept == sealed


async def test_keeping_a_value_needs_no_master_key(tmp_path: Path) -> None:
    sealed = await sealed_by(await opened(tmp_path, OLD))
    assert await (await opened(tmp_path)).seal(ValueRef(), BINDING, sealed) == sealed


async def test_a_new_value_replaces_the_kept_one_and_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    secrets = await opened(tmp_path, OLD, clock=clock)
    first = await sealed_by(secrets)
    clock.advance(60)
    following = RowBinding(BINDING.kind, BINDING.id, BINDING.field, 2)
    second = await secrets.seal(written("second"), following, first)
    assert isinstance(second, SealedRef)
    assert (second.updated_at - first.updated_at).total_seconds() == 60
    assert (await secrets.resolve(second, following)).value.matches("second")


@pytest.mark.parametrize("previous", [None, SecretRef(kind="env")])
async def test_a_first_write_without_value_names_the_field(
    tmp_path: Path, previous: SecretRef | None
) -> None:
    secrets = await opened(tmp_path, OLD)
    with pytest.raises(SecretRefError, match="a credential is needed") as caught:
        await secrets.seal(ValueRef(), BINDING, previous)
    assert caught.value.field == "value"


@pytest.mark.parametrize(
    "value",
    ["", " key", "key ", "key\n", "a\r\nb", "a\x00b", "schlüssel", "a\u2028b", "k" * 16_385],
)
async def test_t22_a_value_that_cannot_be_sent_is_refused_without_being_shown(
    tmp_path: Path, value: str
) -> None:
    secrets = await opened(tmp_path, OLD)
    ref = written(value)
    with pytest.raises(SecretRefError) as sealing:
        await secrets.seal(ref, BINDING, None)
    with pytest.raises(SecretRefError) as checking:
        secrets.check(ref)
    for error in (sealing.value, checking.value):
        assert error.field == "value"
        assert not value or value not in str(error)


async def test_without_master_key_storing_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SecretRefError, match="POST /master-key/generate"):
        await sealed_by(await opened(tmp_path))


async def test_without_master_key_reading_says_which_one_is_missing(tmp_path: Path) -> None:
    sealed = await sealed_by(await opened(tmp_path, OLD))
    with pytest.raises(SecretUnavailableError, match=sealed.key_id):
        await (await opened(tmp_path)).resolve(sealed, BINDING)


async def test_before_it_is_open_and_after_it_is_closed_nothing_is_sealed_or_read(
    tmp_path: Path,
) -> None:
    sealed = await sealed_by(await opened(tmp_path, OLD))
    secrets = await opened(tmp_path, OLD)
    await secrets.aclose()
    await secrets.aclose()
    with pytest.raises(SecretUnavailableError, match="not open"):
        await secrets.resolve(sealed, BINDING)
    with pytest.raises(SecretUnavailableError, match="not open"):
        await secrets.seal(written(CANARY), BINDING, None)


async def test_t63_after_a_key_change_old_values_open_and_new_ones_use_the_new_key(
    tmp_path: Path,
) -> None:
    old = await sealed_by(await opened(tmp_path, OLD))
    secrets = await opened(tmp_path, NEW, OLD)
    assert (await secrets.resolve(old, BINDING)).value.matches(CANARY)
    new = await sealed_by(secrets, "second")
    assert new.key_id != old.key_id
    assert (await (await opened(tmp_path, NEW)).resolve(new, BINDING)).value.matches("second")


async def test_t63_a_value_of_a_key_that_left_the_ring_is_undecryptable(tmp_path: Path) -> None:
    old = await sealed_by(await opened(tmp_path, OLD))
    secrets = await opened(tmp_path, NEW)
    with pytest.raises(SecretDeniedError, match=f"undecryptable.*{old.key_id}"):
        await secrets.resolve(old, BINDING)


def _weak(*data: int | bytes) -> list[Secret]:
    return [
        Secret(base64.b64encode(part if isinstance(part, bytes) else bytes([part] * 32)).decode())
        for part in data
    ]


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([Secret("")], "key 1 of 1 has 0 bytes"),
        ([OLD, Secret("canary-not-base64!")], "key 2 of 2 is not standard base64"),
        ([Secret(OLD.reveal() + "\n")], "key 1 of 1 is not standard base64"),
        (_weak(b"x" * 31), "has 31 bytes"),
        (_weak(b"x" * 33), "has 33 bytes"),
        (_weak(0), "is a pattern"),
        (_weak(0x55), "is a pattern"),
        (_weak(bytes(range(32))), "is a pattern"),
    ],
)
async def test_t62_a_bad_master_key_is_refused_by_its_position_at_open(
    tmp_path: Path, entries: Sequence[Secret], found: str
) -> None:
    with pytest.raises(PluginLoadError, match=found) as caught:
        await opened(tmp_path, *entries)
    said = str(caught.value) + repr(caught.value.__cause__)
    assert not any(entry and entry.reveal() in said for entry in entries)


async def test_a_key_given_twice_counts_once(tmp_path: Path) -> None:
    secrets = await opened(tmp_path, OLD, OLD)
    sealed = await sealed_by(secrets)
    assert (await secrets.resolve(sealed, BINDING)).value.matches(CANARY)


async def test_neither_value_nor_key_shows_in_any_repr_json_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ref = written(CANARY)
    with caplog.at_level("DEBUG"):
        secrets = await opened(tmp_path, OLD)
        sealed = await sealed_by(secrets)
        resolved = await secrets.resolve(sealed, BINDING)
    shown = [
        caplog.text,
        repr(ref),
        ref.model_dump_json(),
        repr(sealed),
        sealed.model_dump_json(),
        repr(resolved),
        repr(secrets._ring),
        json.dumps(ValueRef.model_json_schema(by_alias=True)),
    ]
    raw = base64.b64decode(OLD.reveal())
    assert secrets._ring is not None
    derived = repr(secrets._ring.keys[0].key)[2:-1]
    for text in shown:
        assert derived not in text
        assert CANARY not in text
        assert OLD.reveal() not in text
        assert repr(raw)[2:-1] not in text
        assert sealed.key_id not in raw.hex()


def test_a_reference_that_does_not_validate_does_not_quote_its_value() -> None:
    for wrong in ({"value": [CANARY]}, {"vlaue": CANARY}, {"value": {"a": CANARY}}):
        with pytest.raises(ValidationError) as caught:
            ValueRef.model_validate({"kind": "stored", **wrong})
        assert CANARY not in str(caught.value)


def test_the_schema_marks_the_value_as_write_only() -> None:
    schema = json.dumps(ValueRef.model_json_schema(by_alias=True)["properties"]["value"])
    assert '"writeOnly": true' in schema
    assert "value" not in PublicRef.model_json_schema(by_alias=True)["properties"]


def test_the_hook_hands_over_the_backend() -> None:
    assert list(relay_register_secret_backends()) == [StoredSecrets]
