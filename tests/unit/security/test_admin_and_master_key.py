from __future__ import annotations

import base64

import pytest

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.security.admin import AdminToken
from relay_gateway.security.master_key import check_master_keys, generate_master_key


def encoded(key: bytes) -> Secret:
    return Secret(base64.b64encode(key).decode())


def test_only_the_whole_admin_token_matches() -> None:
    token = AdminToken(Secret("correct-horse"))
    assert token.matches("correct-horse")
    for wrong in ("", "correct", "correct-horse ", "Correct-horse", "\udc80"):
        assert not token.matches(wrong)


def test_a_generated_master_key_is_accepted_and_new_each_time() -> None:
    first, second = generate_master_key(), generate_master_key()
    assert len(base64.b64decode(first.reveal(), validate=True)) == 32
    assert first.reveal() != second.reveal()
    check_master_keys([first, second])


def test_an_empty_ring_is_accepted() -> None:
    check_master_keys([])


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (encoded(bytes(32)), "one byte repeated"),
        (encoded(b"\xff" * 32), "one byte repeated"),
        (encoded(bytes(range(31))), "31 bytes"),
        (encoded(bytes(range(33))), "33 bytes"),
        (Secret("not base64!"), "not standard base64"),
        (Secret("ä" * 44), "not standard base64"),
        (Secret(""), "0 bytes"),
        (Secret(base64.urlsafe_b64encode(b"\xfb\xff" * 16).decode()), "not standard base64"),
    ],
)
def test_t62_a_master_key_that_protects_nothing_is_refused_by_its_position(
    entry: Secret, reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        check_master_keys([generate_master_key(), entry])
    assert "master key 2" in str(caught.value)
    assert not entry.reveal() or entry.reveal() not in str(caught.value)


def test_t62_the_same_master_key_twice_is_refused() -> None:
    key = generate_master_key()
    with pytest.raises(SettingsError, match="twice"):
        check_master_keys([key, key])
