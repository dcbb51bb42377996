"""A relay key is taken from four headers, checked without a look-up where it can be, and found."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.security.relay_keys import mint_relay_key
from relay_gateway.testing.world import PREFIXES, PipelineWorld

NOW = 1_800_000_000.0


@pytest.fixture
async def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


def authenticate(
    world: PipelineWorld, *fields: tuple[bytes, bytes], address: str = "127.0.0.1", now: float = NOW
) -> str:
    authenticator = Authenticator(PREFIXES)
    return authenticator.authenticate(world.live.current, Headers(fields), address, now).slug


def refusal(world: PipelineWorld, *fields: tuple[bytes, bytes], **more: object) -> tuple[int, str]:
    with pytest.raises(RequestRefusedError) as refused:
        authenticate(world, *fields, **more)  # type: ignore[arg-type]
    return refused.value.status, refused.value.code


@pytest.mark.parametrize(
    ("name", "before"),
    [
        (b"X-Relay-API-Key", b""),
        (b"x-svc-api-key", b""),
        (b"Authorization", b"Bearer "),
        (b"authorization", b"bearer "),
        (b"X-API-Key", b""),
        (b"x-goog-api-key", b""),
    ],
)
async def test_each_header_can_carry_the_key(
    world: PipelineWorld, name: bytes, before: bytes
) -> None:
    key = world.relay_key.plaintext.reveal().encode()
    assert authenticate(world, (name, before + key)) == "app"


async def test_the_gateways_own_header_goes_before_the_others(world: PipelineWorld) -> None:
    key = world.relay_key.plaintext.reveal().encode()
    fields = ((b"authorization", b"Bearer sk-upstream"), (b"x-svc-api-key", key))
    assert authenticate(world, *fields) == "app"


async def test_t21_a_key_header_that_comes_twice_is_refused(world: PipelineWorld) -> None:
    key = world.relay_key.plaintext.reveal().encode()
    twice = ((b"authorization", b"Bearer " + key), (b"Authorization", b"Bearer " + key))
    assert refusal(world, *twice) == (400, "duplicate_auth")
    assert refusal(world, (b"X-SVC-API-Key", key), (b"x-svc-api-key", key)) == (
        400,
        "duplicate_auth",
    )


async def test_unknown_revoked_and_disabled_keys_are_not_told_apart(world: PipelineWorld) -> None:
    revoked = world.draft.relay_key("r", world.policy, revokedAt="2020-01-01T00:00:00Z")
    disabled = world.draft.relay_key("d", world.policy, enabled=False)
    world.publish()
    messages = set()
    for minted in (revoked, disabled, mint_relay_key()):
        with pytest.raises(RequestRefusedError) as refused:
            authenticate(world, (b"x-api-key", minted.plaintext.reveal().encode()))
        assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")
        messages.add(refused.value.message)
    assert len(messages) == 1


async def test_t15_a_refusal_never_quotes_the_key(world: PipelineWorld) -> None:
    key = world.relay_key.plaintext.reveal()
    mistyped = key[:-1] + ("a" if key[-1] != "a" else "b")
    with pytest.raises(RequestRefusedError) as refused:
        authenticate(world, (b"x-api-key", mistyped.encode()))
    assert mistyped[9:] not in refused.value.message
    assert mistyped[-6:] not in refused.value.message


async def test_expiry_and_addresses_are_checked(world: PipelineWorld) -> None:
    expiring = world.draft.relay_key("e", world.policy, expiresAt="2027-01-15T08:00:00Z")
    local = world.draft.relay_key("l", world.policy, allowedCidrs=["10.0.0.0/8", "2001:db8::/32"])
    world.publish()
    field = (b"x-api-key", expiring.plaintext.reveal().encode())
    assert authenticate(world, field, now=NOW - 1) == "e"
    assert refusal(world, field, now=NOW) == (403, "key_expired")
    field = (b"x-api-key", local.plaintext.reveal().encode())
    assert authenticate(world, field, address="10.2.3.4") == "l"
    assert authenticate(world, field, address="2001:db8::1") == "l"
    assert refusal(world, field, address="11.0.0.1") == (403, "address_not_allowed")
    assert refusal(world, field, address="unix") == (403, "address_not_allowed")


async def test_a_rotated_key_is_valid_for_its_time_of_grace(world: PipelineWorld) -> None:
    former = mint_relay_key()
    row = world.draft.rows[-1]
    row.sealed["previous"] = [{"digest": former.digest, "until": "2027-01-15T08:00:00.000000Z"}]
    world.publish()
    field = (b"x-api-key", former.plaintext.reveal().encode())
    assert authenticate(world, field, now=NOW - 1) == "app"
    assert refusal(world, field, now=NOW) == (401, "invalid_api_key")
