"""Nothing but the untouched row, at its own place, gives a stored value back (T60, T61)."""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from relay_gateway.errors import SecretDeniedError
from relay_gateway.plugin import PluginConfig, RowBinding
from relay_gateway.testing.context import master_key, plugin_context
from relay_gateway_secret_stored import SealedRef, StoredSecrets, ValueRef
from relay_gateway_secret_stored.envelope import UndecryptableError, _bound, open_value
from relay_gateway_secret_stored.ring import parse_ring

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 3)
CANARY = "canary-5f1c9e7d2b"
RING = parse_ring([master_key("current"), master_key("other")])
PARTS = ("nonce", "ciphertext", "key_nonce", "wrapped_key")


async def opened(directory: Path) -> StoredSecrets:
    keys = [master_key("current"), master_key("other")]
    secrets = StoredSecrets(PluginConfig(), plugin_context(directory, master_keys=keys))
    await secrets.aopen()
    return secrets


async def sealed_for(secrets: StoredSecrets, binding: RowBinding, value: str = CANARY) -> SealedRef:
    sealed = await secrets.seal(ValueRef(value=SecretStr(value)), binding, None)
    assert isinstance(sealed, SealedRef)
    return sealed


def flips(data: bytes) -> Iterator[bytes]:
    for position, bit in itertools.product(range(len(data)), range(8)):
        changed = bytearray(data)
        changed[position] ^= 1 << bit
        yield bytes(changed)


@pytest.mark.parametrize("part", PARTS)
async def test_t60_every_flipped_bit_is_refused(tmp_path: Path, part: str) -> None:
    secrets = await opened(tmp_path)
    sealed = await sealed_for(secrets, BINDING)
    for changed in flips(base64.b64decode(getattr(sealed, part))):
        altered = sealed.model_copy(update={part: base64.b64encode(changed).decode()})
        with pytest.raises(SecretDeniedError, match="undecryptable") as caught:
            await secrets.resolve(altered, BINDING)
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("length", [0, 1, 7, 8, 11, 13, 129])
async def test_t60_parts_of_a_wrong_length_are_refused(
    tmp_path: Path, part: str, length: int
) -> None:
    secrets = await opened(tmp_path)
    sealed = await sealed_for(secrets, BINDING)
    altered = sealed.model_copy(update={part: base64.b64encode(bytes(length)).decode()})
    with pytest.raises(SecretDeniedError, match="undecryptable"):
        await secrets.resolve(altered, BINDING)


async def test_r26_no_flipped_bit_of_a_whole_row_gives_another_value(tmp_path: Path) -> None:
    secrets = await opened(tmp_path)
    kept = (await sealed_for(secrets, BINDING)).model_dump_json(by_alias=True)
    untouched = SealedRef.model_validate_json(kept).model_dump()
    without_effect: set[str] = set()
    for changed in flips(kept.encode()):
        try:
            altered = SealedRef.model_validate_json(changed)
            resolved = await secrets.resolve(altered, BINDING)
        except (ValidationError, SecretDeniedError):
            continue
        assert resolved.value.matches(CANARY)
        without_effect |= dict(altered.model_dump().items() - untouched.items()).keys()
    # The time of the last new value is told, and protects nothing.
    assert without_effect <= {"updated_at"}


MOVED = (
    dataclasses.replace(BINDING, kind="relay key"),
    dataclasses.replace(BINDING, id="0190a0b0-0000-7000-8000-000000000002"),
    dataclasses.replace(BINDING, field="other"),
    dataclasses.replace(BINDING, generation=2),
    dataclasses.replace(BINDING, generation=4),
)


@pytest.mark.parametrize("place", MOVED)
async def test_t60_t61_a_value_moved_to_another_place_or_generation_is_refused(
    tmp_path: Path, place: RowBinding
) -> None:
    secrets = await opened(tmp_path)
    here, there = await sealed_for(secrets, BINDING), await sealed_for(secrets, place)
    for sealed, wrong in ((here, place), (there, BINDING)):
        with pytest.raises(SecretDeniedError, match="undecryptable"):
            await secrets.resolve(sealed, wrong)


async def test_t60_parts_of_two_sealings_do_not_mix(tmp_path: Path) -> None:
    secrets = await opened(tmp_path)
    first = await sealed_for(secrets, BINDING)
    second = await sealed_for(secrets, BINDING, "second")
    for count in range(1, len(PARTS)):
        for chosen in itertools.combinations(PARTS, count):
            mixed = first.model_copy(update={part: getattr(second, part) for part in chosen})
            with pytest.raises(SecretDeniedError):
                await secrets.resolve(mixed, BINDING)


async def test_t60_another_key_id_of_the_ring_is_refused(tmp_path: Path) -> None:
    secrets = await opened(tmp_path)
    sealed = await sealed_for(secrets, BINDING)
    altered = sealed.model_copy(update={"key_id": RING.keys[1].id})
    with pytest.raises(SecretDeniedError, match="undecryptable"):
        await secrets.resolve(altered, BINDING)


async def test_t60_even_the_right_key_refuses_a_changed_key_id(tmp_path: Path) -> None:
    sealed = await sealed_for(await opened(tmp_path), BINDING)
    renamed = dataclasses.replace(RING.keys[0], id="0" * 16)
    with pytest.raises(UndecryptableError):
        open_value(sealed, renamed, BINDING)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("text", ["%%%%", "QQ", "QR==", "QQ==\n", " QQ==", "_-_-"])
def test_t60_a_kept_part_has_one_spelling_only(part: str, text: str) -> None:
    whole = {
        "kind": "stored", "keyId": "0" * 16, "updatedAt": "2026-01-01T00:00:00Z",
        "nonce": "QQ==", "ciphertext": "QQ==", "keyNonce": "QQ==", "wrappedKey": "QQ==",
    }  # fmt: skip
    SealedRef.model_validate(whole)
    alias = {"key_nonce": "keyNonce", "wrapped_key": "wrappedKey"}.get(part, part)
    with pytest.raises(ValidationError, match="base64"):
        SealedRef.model_validate({**whole, alias: text})


bindings = st.builds(
    RowBinding, kind=st.text(), id=st.text(), field=st.text(), generation=st.integers()
)


@given(bindings, bindings, st.text(), st.text())
def test_two_places_never_have_the_same_associated_data(
    first: RowBinding, second: RowBinding, first_key: str, second_key: str
) -> None:
    same = first == second and first_key == second_key
    assert (_bound("key", first, first_key) == _bound("key", second, second_key)) is same


@given(bindings, st.text())
def test_the_two_layers_never_have_the_same_associated_data(
    binding: RowBinding, key_id: str
) -> None:
    assert _bound("key", binding, key_id) != _bound("value", binding, key_id)
