"""Passwords: what is accepted, and that verifying tells nothing by its time."""

from __future__ import annotations

import time

import bcrypt
import pytest

from relay_gateway.secret import Secret
from relay_gateway.security.passwords import (
    PasswordBook,
    hash_password,
    password_problem,
    stored_problem,
)

CHEAP = 4


def hashed(password: str, prefix: str = "$2b$", rounds: int = CHEAP) -> Secret:
    text = hash_password(Secret(password), rounds)
    return Secret(prefix + text[4:])


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
def test_every_spelling_of_a_bcrypt_hash_is_verified(prefix: str) -> None:
    book = PasswordBook({"ada": hashed("s3cret", prefix)})
    assert book.verify("ada", Secret("s3cret"))
    assert not book.verify("ada", Secret("s3creT"))
    assert not book.verify("bob", Secret("s3cret"))


def test_plain_text_still_works_and_a_hash_is_never_a_password() -> None:
    stored = hashed("s3cret")
    book = PasswordBook({"ada": Secret("plain"), "bob": stored})
    assert book.verify("ada", Secret("plain"))
    assert not book.verify("ada", Secret("plainer"))
    assert not book.verify("bob", Secret(stored.reveal()))


def test_t47_a_password_is_not_verified_by_its_first_72_bytes() -> None:
    book = PasswordBook({"ada": hashed("a" * 72)})
    assert book.verify("ada", Secret("a" * 72))
    assert not book.verify("ada", Secret("a" * 73))


@pytest.mark.parametrize("password", ["", "a" * 73, "é" * 37, "a\0b"])
def test_t47_what_bcrypt_would_cut_off_is_refused_when_it_is_set(password: str) -> None:
    assert password_problem(Secret(password))
    assert stored_problem(Secret(password))
    with pytest.raises(ValueError, match="the password"):
        hash_password(Secret(password), CHEAP)


@pytest.mark.parametrize("stored", ["$2b$12$short", "$2b$99$" + "a" * 53, "$2y$12$" + "!" * 53])
def test_what_only_begins_like_a_hash_is_refused(stored: str) -> None:
    assert "hash-password" in (stored_problem(Secret(stored)) or "")


def test_new_hashes_are_accepted_and_of_the_right_cost() -> None:
    stored = hash_password(Secret("s3cret"))
    assert stored.startswith("$2b$12$")
    assert stored_problem(Secret(stored)) is None
    assert bcrypt.checkpw(b"s3cret", stored.encode())


def test_t46_an_unknown_user_takes_as_long_as_a_known_one() -> None:
    book = PasswordBook({"ada": hashed("s3cret", rounds=8), "old": Secret("plain")})

    def quickest(username: str) -> float:
        times = []
        for _ in range(9):
            began = time.thread_time()
            book.verify(username, Secret("wrong"))
            times.append(time.thread_time() - began)
        return min(times)

    known = quickest("ada")
    assert quickest("nobody") == pytest.approx(known, rel=0.2)
    assert quickest("old") == pytest.approx(known, rel=0.2)
