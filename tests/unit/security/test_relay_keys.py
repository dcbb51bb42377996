from __future__ import annotations

import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.security.relay_keys import (
    ALPHABET,
    digest,
    has_valid_checksum,
    mint_relay_key,
)

PLAIN = mint_relay_key().plaintext.reveal()


def base62(value: int) -> str:
    text = ""
    while value:
        value, digit = divmod(value, 62)
        text = ALPHABET[digit] + text
    return text.rjust(6, "0")


def test_a_minted_key_has_the_documented_form() -> None:
    minted = mint_relay_key()
    plaintext = minted.plaintext.reveal()
    assert plaintext.startswith("sk-relay-")
    assert len(plaintext) == len("sk-relay-") + 43 + 6
    assert set(plaintext[9:]) <= set(ALPHABET)
    assert minted.prefix == plaintext[:16]
    assert minted.digest == hashlib.sha256(plaintext.encode()).hexdigest() == digest(plaintext)


def test_the_checksum_is_the_crc_32_of_what_precedes_it() -> None:
    plaintext = mint_relay_key().plaintext.reveal()
    assert plaintext[-6:] == base62(zlib.crc32(plaintext[:-6].encode()))
    assert has_valid_checksum(plaintext)


def test_the_checksum_of_a_known_key_never_changes() -> None:
    body = "sk-relay-" + "0" * 43
    assert has_valid_checksum(body + "0IdRtx")


def test_minted_keys_differ_and_do_not_print() -> None:
    keys = [mint_relay_key() for _ in range(200)]
    assert len({key.digest for key in keys}) == 200
    assert all(key.plaintext.reveal()[9:] not in repr(key) for key in keys)


@given(position=st.integers(9, len(PLAIN) - 1), replacement=st.sampled_from(ALPHABET))
def test_one_mistyped_character_is_noticed(position: int, replacement: str) -> None:
    mistyped = PLAIN[:position] + replacement + PLAIN[position + 1 :]
    assert has_valid_checksum(mistyped) is (mistyped == PLAIN)


@given(st.text(max_size=80))
def test_any_text_is_answered_without_an_error(text: str) -> None:
    assert has_valid_checksum(text) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sk-relay-",
        PLAIN[:-1],
        PLAIN + "0",
        PLAIN + "\n",
        " " + PLAIN,
        PLAIN.upper(),
        "sk-other-" + PLAIN[9:],
    ],
    ids=[
        "empty",
        "prefix only",
        "too short",
        "too long",
        "line end",
        "leading space",
        "capitals",
        "other prefix",
    ],
)
def test_what_has_another_form_is_no_key(text: str) -> None:
    assert not has_valid_checksum(text)
