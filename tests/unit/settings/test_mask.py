"""What may be shown of the settings."""

from __future__ import annotations

import json

import pytest

from relay_gateway.settings import Settings, masked, without_password

CANARY = "canary-7f3a9c51e2"


def settings_full_of_secrets() -> Settings:
    return Settings.model_validate(
        {
            "master_key": f"{CANARY}-1,{CANARY}-2",
            "admin_token": CANARY,
            "database_url": f"postgresql://relay:{CANARY}@127.0.0.1/relay",
            "secret_backends": {"vault": {"token": CANARY}},
        }
    )


def test_t13_masked_settings_have_no_credential_and_are_json() -> None:
    sections = {"secret_backends": {"vault": {"token": "<secret>"}}}
    shown = masked(settings_full_of_secrets(), sections)
    text = json.dumps(shown)
    assert CANARY not in text
    assert shown["master_key"] == ["<secret>", "<secret>"]
    assert shown["database_url"] == "postgresql://relay:<secret>@127.0.0.1/relay"
    assert shown["secret_backends"] == {"vault": {"token": "<secret>"}}


def test_t13_printing_settings_shows_no_credential() -> None:
    settings = settings_full_of_secrets()
    assert CANARY not in f"{settings!r} {settings} {settings.__dict__['master_key']}"


def test_masked_settings_say_off_and_leave_out_empty_sections() -> None:
    shown = masked(Settings(control_port=None), {"usage_sinks": {}})
    assert shown["control_port"] == "off"
    assert "usage_sinks" not in shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/lib/relay.sqlite3", "sqlite:////var/lib/relay.sqlite3"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p@h/d", "postgresql://u:<secret>@h/d"),
        ("postgresql://u:p:q@r@h/d", "postgresql://u:<secret>@h/d"),
        ("postgresql://:p@h/d", "postgresql://:<secret>@h/d"),
        ("postgresql:///d?user=u&password=p&host=/run", None),
    ],
)
def test_a_database_address_is_shown_without_its_password(url: str, shown: str | None) -> None:
    expected = shown or "postgresql:///d?user=u&password=<secret>&host=/run"
    assert without_password(url) == expected
