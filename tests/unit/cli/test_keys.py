"""``relay-gateway keys`` on the embedded database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

from relay_gateway.cli.duration import parse_duration
from relay_gateway.security.relay_keys import has_valid_checksum

if TYPE_CHECKING:
    from .conftest import CommandLine


def test_a_new_key_is_printed_alone_on_standard_output(relay: CommandLine) -> None:
    outcome = relay("keys", "create", "My application")
    plaintext = outcome.out.removesuffix("\n")
    assert outcome.code == 0
    assert has_valid_checksum(plaintext)
    assert "my-application" in outcome.err
    assert plaintext not in outcome.err


def test_a_key_is_never_shown_again(relay: CommandLine, tmp_path: Path) -> None:
    plaintext = relay("keys", "create", "app").out.strip()
    shown = relay("keys", "list").out + relay("keys", "list", "--json").out
    assert plaintext[:16] in shown
    assert plaintext not in shown
    for path in (tmp_path / "relay-data").rglob("*"):
        assert plaintext.encode() not in path.read_bytes(), path


def test_json_has_the_plaintext_once_and_the_entity(relay: CommandLine) -> None:
    created = relay("keys", "create", "app", "--expires", "30d", "--json").json
    plaintext, entity = created["plaintext"], created["relayKey"]
    assert entity["metadata"]["slug"] == "app"
    assert entity["spec"]["prefix"] == plaintext[:16]
    assert plaintext not in json.dumps(entity)
    left = datetime.fromisoformat(entity["spec"]["expiresAt"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)


def test_rotating_gives_another_key_under_the_same_slug(relay: CommandLine) -> None:
    first = relay("keys", "create", "app").out.strip()
    rotated = relay("keys", "rotate", "app", "--grace", "1h", "--json").json
    assert rotated["plaintext"] != first
    assert rotated["relayKey"]["spec"]["prefix"] == rotated["plaintext"][:16]
    assert [key["metadata"]["slug"] for key in relay("keys", "list", "--json").json] == ["app"]


def test_revoking_shows_in_the_list(relay: CommandLine) -> None:
    relay("keys", "create", "kept")
    relay("keys", "create", "ended")
    assert relay("keys", "revoke", "ended").code == 0
    states = {line.split()[0]: line.split()[-1] for line in relay("keys", "list").out.splitlines()}
    assert (states["kept"], states["ended"]) == ("active", "revoked")


def test_a_policy_that_does_not_exist_ends_with_1(relay: CommandLine) -> None:
    outcome = relay("keys", "create", "app", "--policy", "missing")
    assert (outcome.code, outcome.out) == (1, "")
    assert "policy" in outcome.err
    assert "'missing'" in outcome.err


def test_a_key_is_made_with_everything_it_can_have(relay: CommandLine) -> None:
    created = relay(
        "keys", "create", "app", "--description", "batch jobs", "--cidr", "10.0.0.0/8",
        "--cidr", "2001:db8::1", "--tag", "team=a", "--tag", "env=x=y", "--payload-logging",
        "--json",
    ).json["relayKey"]  # fmt: skip
    assert created["metadata"]["description"] == "batch jobs"
    spec = created["spec"]
    assert spec["allowedCidrs"] == ["10.0.0.0/8", "2001:db8::1/128"]
    assert spec["tags"] == {"team": "a", "env": "x=y"}
    assert (spec["payloadLogging"], spec["rateLimitIds"]) == (True, [])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--cidr", "10.0.0.0/33"), 1, "spec.allowedCidrs[0]"),
        (("--tag", "team"), 2, "write NAME=VALUE"),
        (("--rate-limit", "missing"), 1, "no rate limit has the id or slug 'missing'"),
        (("--description", "x" * 2001), 1, "metadata.description"),
    ],
)
def test_what_a_key_cannot_have_is_named(
    relay: CommandLine, arguments: tuple[str, ...], code: int, words: str
) -> None:
    outcome = relay("keys", "create", "app", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert relay("keys", "list", "--json").json == []


def test_a_key_is_shown_without_what_it_is(relay: CommandLine) -> None:
    plaintext = relay(
        "keys", "create", "app", "--tag", "team=a", "--cidr", "10.0.0.0/8"
    ).out.strip()
    shown = relay("keys", "show", "app")
    assert shown.code == 0
    for words in ("10.0.0.0/8", "team=a", "active", plaintext[:16]):
        assert words in shown.out
    entity = relay("keys", "show", "app", "--json").json
    assert entity["status"] == {"lastUsedAt": None}
    assert plaintext not in shown.out + str(entity)
    assert relay("keys", "show", "missing").code == 1


def test_a_list_can_be_that_of_one_policy(relay: CommandLine) -> None:
    relay("keys", "create", "app")
    listed = relay("keys", "list", "--policy", "default", "--json").json
    assert [key["metadata"]["slug"] for key in listed] == ["app"]
    assert listed[0]["status"] == {"lastUsedAt": None}
    assert relay("keys", "list", "--policy", "missing").code == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("45s", 45), ("90m", 5400), ("12h", 43200), (" 30d ", 2592000)]
)
def test_durations_are_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "1w", "1d2h", "٣d", "9999999d"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        parse_duration(text)
