"""Which values of a plugin's section are credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, SecretStr

from relay_gateway.plugin import PluginConfig, PluginContext, Secret
from relay_gateway.registry.masking import masked, secrets_in, secrets_of


class Login(BaseModel):
    user: str
    password: SecretStr


class AcmeConfig(PluginConfig):
    url: str = ""
    token: SecretStr | None = None
    keys: tuple[SecretStr, ...] = ()
    login: Login | None = None
    logins: tuple[Login, ...] = ()
    renamed: SecretStr = Field(default=SecretStr(""), alias="api-key")


SECTION: dict[str, Any] = {
    "url": "http://127.0.0.1",
    "token": "aaaa",
    "keys": ["bbbb", "cccc"],
    "login": {"user": "joan", "password": "dddd"},
    "logins": [{"user": "jack", "password": "eeee", "pasword": "ffff"}],
    "api-key": "gggg",
    "tokn": "hhhh",
}


def test_credentials_are_found_at_every_depth() -> None:
    assert secrets_in(AcmeConfig, SECTION) == {letter * 4 for letter in "abcdefgh"}


def test_what_is_no_credential_is_shown() -> None:
    assert masked(AcmeConfig, SECTION) == {
        "url": "http://127.0.0.1",
        "token": "<secret>",
        "keys": ["<secret>", "<secret>"],
        "login": {"user": "joan", "password": "<secret>"},
        "logins": [{"user": "jack", "password": "<secret>", "pasword": "<secret>"}],
        "api-key": "<secret>",
        "tokn": "<secret>",
    }


def test_a_value_of_the_wrong_type_is_hidden_where_a_credential_belongs() -> None:
    assert masked(AcmeConfig, {"token": 1234, "login": "joan"}) == {
        "token": "<secret>",
        "login": "joan",
    }


def test_without_a_model_everything_is_hidden() -> None:
    assert masked(None, {"url": "x", "deep": {"er": ["y"]}}) == {
        "url": "<secret>",
        "deep": {"er": ["<secret>"]},
    }


def test_the_credentials_of_a_context_are_known_in_both_spellings() -> None:
    context = PluginContext(
        "acme", Path(), "postgresql://joan:p%40ss@127.0.0.1/relay", (Secret("master"),)
    )
    assert secrets_of(context) == {"master", "p%40ss", "p@ss"}
    assert secrets_of(PluginContext("acme", Path(), "sqlite:///relay.sqlite3")) == set()
