"""Credentials that protect too little are refused at the start; sessions end when they must."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.security.access import check_access, is_loopback, login_users
from relay_gateway.security.admin import AdminToken
from relay_gateway.security.passwords import hash_password
from relay_gateway.security.sessions import (
    ABSOLUTE_SECONDS,
    IDLE_SECONDS,
    is_alive,
    is_marked,
    mint_token,
    password_mark,
    token_hash,
)
from relay_gateway.server.access import access_rules
from relay_gateway.settings import Settings, load_settings

HASH = hash_password(Secret("s3cret"), 4)


def settings(**fields: Any) -> Settings:
    return Settings(**fields)


def test_t47_plain_text_is_accepted_on_loopback_only() -> None:
    check_access(settings(admin_password="plain"))
    check_access(settings(admin_password=HASH, control_host="0.0.0.0"))
    check_access(settings(admin_password="plain", control_host="0.0.0.0", control_port="off"))
    with pytest.raises(SettingsError, match="'admin' is plain text") as refused:
        check_access(settings(admin_password="pl41n", control_host="0.0.0.0"))
    assert "pl41n" not in str(refused.value)


def test_t48_a_short_admin_token_is_accepted_on_loopback_only() -> None:
    check_access(settings(admin_token="short"))
    check_access(settings(admin_token="x" * 32, control_host="0.0.0.0"))
    with pytest.raises(SettingsError, match="admin_token"):
        check_access(settings(admin_token="x" * 31, control_host="0.0.0.0"))


def test_t48_an_admin_token_may_be_given_as_its_digest() -> None:
    digest = hashlib.sha256(b"token").hexdigest()
    admin = AdminToken(Secret(f"sha256:{digest}"))
    assert admin.matches("token")
    assert not admin.matches(f"sha256:{digest}")
    with pytest.raises(SettingsError, match="64 hex digits"):
        AdminToken(Secret("sha256:abc"))


def test_users_come_from_both_places_and_each_once() -> None:
    bob = {"username": "bob", "password": HASH}
    users = login_users(settings(admin_password=HASH, users=[bob]))
    assert set(users) == {"admin", "bob"}
    for twice in (
        {"users": [bob, bob]},
        {"users": [bob], "admin_username": "bob", "admin_password": HASH},
    ):
        with pytest.raises(SettingsError, match="users"):
            login_users(settings(**twice))


def test_a_hash_that_is_none_is_refused_by_the_name_of_its_user() -> None:
    with pytest.raises(SettingsError, match="'bob' begins like a bcrypt hash"):
        check_access(settings(users=[{"username": "bob", "password": "$2b$12$x"}]))


@pytest.mark.parametrize("value", ["*", "null", "https://a.example/", "a.example", "HTTPS://A"])
def test_t44_origins_must_be_exact(value: str) -> None:
    with pytest.raises(SettingsError, match="RELAY_CORS_ORIGINS"):
        load_settings({"RELAY_CORS_ORIGINS": value})


def test_origins_and_hosts_are_kept_as_browsers_send_them() -> None:
    found = load_settings(
        {"RELAY_CORS_ORIGINS": "https://a.example:443,http://b:8081", "RELAY_ALLOWED_HOSTS": "A.b"}
    )
    assert found.cors_origins == ("https://a.example", "http://b:8081")
    assert found.allowed_hosts == ("a.b",)
    with pytest.raises(SettingsError, match="RELAY_ALLOWED_HOSTS"):
        load_settings({"RELAY_ALLOWED_HOSTS": "https://a.example"})


def test_users_of_the_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "relay.toml"
    file.write_text(f"[[users]]\nusername = 'bob'\npassword = '{HASH}'\n")
    (user,) = load_settings({}, file).users
    assert user.username == "bob"
    assert HASH not in repr(load_settings({}, file))


def test_cookies_are_secure_unless_the_control_plane_is_local() -> None:
    assert not access_rules(settings()).cookie_secure
    assert access_rules(settings(control_host="0.0.0.0")).cookie_secure
    assert access_rules(settings(cookie_secure=True)).cookie_secure
    assert not access_rules(settings(cookie_secure=False, control_host="::")).cookie_secure


def test_only_a_local_control_plane_is_choosy_about_host_names_by_itself() -> None:
    assert access_rules(settings()).allowed_hosts == ()
    assert access_rules(settings(control_host="0.0.0.0")).allowed_hosts is None
    assert access_rules(settings(allowed_hosts=["a"])).allowed_hosts == ("a",)
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "::", "a.b")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_t45_a_session_ends_after_a_day_and_after_two_idle_hours() -> None:
    began = 1_000_000
    last = began + ABSOLUTE_SECONDS - 1
    assert is_alive(began, last, last)
    assert not is_alive(began, last + 1, last + 1)
    assert is_alive(began, began, began + IDLE_SECONDS - 1)
    assert not is_alive(began, began, began + IDLE_SECONDS)


@pytest.mark.parametrize("step", [86_400, -86_400])
def test_t77_a_clock_that_is_set_never_lengthens_a_session(step: int) -> None:
    assert not is_alive(1_000_000, 1_000_000, 1_000_000 + step)


def test_t45_tokens_are_256_random_bits_and_only_their_digest_is_kept() -> None:
    token, other = mint_token(), mint_token()
    assert len(token.reveal()) == 43
    assert token_hash(token) == hashlib.sha256(token.reveal().encode()).hexdigest()
    assert token_hash(token) != token_hash(other)
    mark = password_mark(token, Secret(HASH))
    assert is_marked(mark, token, Secret(HASH))
    assert not is_marked(mark, token, Secret(HASH + "x"))
    assert not is_marked(mark, other, Secret(HASH))
