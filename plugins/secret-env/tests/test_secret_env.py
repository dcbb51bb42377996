"""The environment backend: what it reads, what it refuses, and what it never says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError, SecretRefError
from relay_gateway.plugin import RowBinding
from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_env import (
    EnvConfig,
    EnvironmentSecrets,
    EnvRef,
    relay_register_secret_backends,
)
from relay_gateway_secret_env.names import PROTECTED

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"


def backend(
    directory: Path, allow: tuple[str, ...] | None = None, /, **environ: str
) -> EnvironmentSecrets:
    return EnvironmentSecrets(
        EnvConfig(allow=allow), plugin_context(directory, plugin="env", environ=environ)
    )


async def test_a_variable_gives_its_value(tmp_path: Path) -> None:
    resolved = await backend(tmp_path, ACME_KEY=CANARY).resolve(EnvRef(env="ACME_KEY"), BINDING)
    assert resolved.value.matches(CANARY)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
async def test_one_newline_at_the_end_is_removed(tmp_path: Path, ending: str) -> None:
    resolved = await backend(tmp_path, ACME_KEY=CANARY + ending).resolve(
        EnvRef(env="ACME_KEY"), BINDING
    )
    assert resolved.value.matches(CANARY)


@pytest.mark.parametrize("environ", [{}, {"ACME_KEY": ""}, {"ACME_KEY": "\n"}])
async def test_an_unset_or_empty_variable_is_not_found_by_its_name(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    with pytest.raises(SecretNotFoundError, match="variable ACME_KEY was unset or empty"):
        await backend(tmp_path, None, **environ).resolve(EnvRef(env="ACME_KEY"), BINDING)


@pytest.mark.parametrize(
    "value",
    [f"{CANARY}\r\nX-Other: 1", f"{CANARY}\n\n", f" {CANARY}", f"{CANARY}\t", f"{CANARY}\x00", "é"],
)
async def test_t22_a_value_that_is_no_header_value_is_refused_without_being_shown(
    tmp_path: Path, value: str
) -> None:
    with pytest.raises(SecretDeniedError, match="value of variable ACME_KEY") as caught:
        await backend(tmp_path, ACME_KEY=value).resolve(EnvRef(env="ACME_KEY"), BINDING)
    assert value.strip() not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["RELAY_MASTER_KEY", "RELAY_ADMIN_TOKEN", "RELAY_X", "relay_master_key", *sorted(PROTECTED)],
)
@pytest.mark.parametrize("allow", [None, ("*",), ("ACME_KEY",)])
async def test_t07_names_of_the_gateway_and_protected_names_are_refused(
    tmp_path: Path, name: str, allow: tuple[str, ...] | None
) -> None:
    secrets = backend(tmp_path, allow, **{name: CANARY})
    with pytest.raises(SecretRefError, match=name) as caught:
        secrets.check(EnvRef(env=name))
    assert caught.value.field == "env"
    with pytest.raises(SecretRefError):
        await secrets.seal(EnvRef(env=name), BINDING, None)
    with pytest.raises(SecretDeniedError) as denied:
        await secrets.resolve(EnvRef(env=name), BINDING)
    assert CANARY not in str(denied.value)


@pytest.mark.parametrize(
    "name",
    [
        "PGPASSWORD",
        "PGPASSFILE",
        "APP_DATABASE_URL",
        "APP_DB_PASSWORD",
        "LD_PRELOAD",
        "SENTRY_DSN",
        "database_url",
    ],
)
def test_t07_names_that_look_like_other_secrets_are_protected(tmp_path: Path, name: str) -> None:
    with pytest.raises(SecretRefError, match="put its full name on the list"):
        backend(tmp_path).check(EnvRef(env=name))


@pytest.mark.parametrize("name", ["DATABASE_URL", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY"])
async def test_a_protected_name_that_is_listed_in_full_is_read(tmp_path: Path, name: str) -> None:
    secrets = backend(tmp_path, (name,), **{name: CANARY})
    secrets.check(EnvRef(env=name))
    assert (await secrets.resolve(EnvRef(env=name), BINDING)).value.matches(CANARY)


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"]
)
def test_without_a_list_keys_of_model_hosts_are_readable(tmp_path: Path, name: str) -> None:
    backend(tmp_path).check(EnvRef(env=name))


@pytest.mark.parametrize(
    ("name", "readable"),
    [("ACME_KEY", True), ("ACME_KEY2", False), ("HOSTKEY_A", True), ("HOSTKEY", False)],
)
def test_a_list_of_names_and_prefixes_limits_what_is_read(
    tmp_path: Path, name: str, *, readable: bool
) -> None:
    secrets = backend(tmp_path, ("ACME_KEY", "HOSTKEY_*"))
    if readable:
        secrets.check(EnvRef(env=name))
    else:
        with pytest.raises(SecretRefError, match=r"\[secret_backends.env\] allow"):
            secrets.check(EnvRef(env=name))


def test_an_empty_list_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(SecretRefError, match="not on the list"):
        backend(tmp_path, ()).check(EnvRef(env="ACME_KEY"))


async def test_a_name_that_left_the_list_is_denied_at_the_next_resolve(tmp_path: Path) -> None:
    stored = await backend(tmp_path).seal(EnvRef(env="ACME_KEY"), BINDING, None)
    with pytest.raises(SecretDeniedError, match="not on the list"):
        await backend(tmp_path, ("OTHER",), ACME_KEY=CANARY).resolve(stored, BINDING)


@pytest.mark.parametrize("entry", ["RELAY_*", "RELAY_X", "relay_x", "A*B", "", "A-B", "A\n"])
def test_a_list_entry_that_could_do_nothing_is_a_configuration_error(entry: str) -> None:
    with pytest.raises(ValidationError):
        EnvConfig(allow=(entry,))


@pytest.mark.parametrize("name", ["", "A B", "A=B", "1A", "A\n", "$(id)", "A" * 257])
def test_a_reference_is_a_name_of_a_variable(name: str) -> None:
    with pytest.raises(ValidationError):
        EnvRef(env=name)


def test_t07_no_variable_of_this_process_is_reachable_past_the_rules(tmp_path: Path) -> None:
    secrets = backend(tmp_path, ())
    names = [name for name in os.environ if name.isidentifier()]
    assert names
    for name in names:
        with pytest.raises(SecretRefError):
            secrets.check(EnvRef(env=name))


async def test_the_catalog_keeps_and_shows_only_the_name(tmp_path: Path) -> None:
    secrets = backend(tmp_path, ACME_KEY=CANARY)
    stored = await secrets.seal(EnvRef(env="ACME_KEY"), BINDING, None)
    shown = secrets.publish(stored)
    assert shown.model_dump(by_alias=True) == {"kind": "env", "env": "ACME_KEY"}


async def test_the_value_shows_in_no_repr_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = backend(tmp_path, ACME_KEY=CANARY)
    with caplog.at_level("DEBUG"):
        await secrets.aopen()
        resolved = await secrets.resolve(EnvRef(env="ACME_KEY"), BINDING)
        await secrets.aclose()
        await secrets.aclose()
    assert CANARY not in caplog.text + repr(resolved) + str(resolved.value) + repr(secrets)


def test_the_hook_hands_over_the_backend() -> None:
    assert list(relay_register_secret_backends()) == [EnvironmentSecrets]


def own_names() -> list[str]:
    """Every variable of the gateway itself, and what somebody might try instead."""
    from relay_gateway.testing.plugin_tests import environment_names

    names = [*environment_names(), "RELAY_CONFIG", "RELAY_", "RELAY_ANYTHING"]
    return [*names, *map(str.lower, names), *map(str.title, names)]


@pytest.mark.parametrize("allow", [None, ("*",), ("R*", "r*", "HOST_*")])
async def test_t07_over_every_name_only_allowed_ones_resolve(
    tmp_path: Path, allow: tuple[str, ...] | None
) -> None:
    machine = [name for name in os.environ if name.isidentifier()]
    theirs = ["ACME_API_KEY", "HOST_KEY_1", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY"]
    names = [*own_names(), *machine, *theirs]
    secrets = backend(tmp_path, allow, **dict.fromkeys(names, CANARY))
    for name in names:
        try:
            secrets.check(EnvRef(env=name))
            allowed = True
        except SecretRefError:
            allowed = False
        if name.upper().startswith("RELAY_") or name in ("DATABASE_URL", "AWS_SECRET_ACCESS_KEY"):
            assert not allowed, name
        if allowed:
            assert (await secrets.resolve(EnvRef(env=name), BINDING)).value.matches(CANARY)
        else:
            with pytest.raises(SecretDeniedError) as refused:
                await secrets.resolve(EnvRef(env=name), BINDING)
            assert CANARY not in str(refused.value)
    secrets.check(EnvRef(env="HOST_KEY_1"))


async def test_t12_a_variable_that_was_read_is_withdrawn_from_the_environment(
    tmp_path: Path,
) -> None:
    secrets = backend(tmp_path, ACME_API_KEY=CANARY)
    withdrawn: list[str] = []
    secrets.context.withdraw = withdrawn.append
    for _ in range(2):
        assert (await secrets.resolve(EnvRef(env="ACME_API_KEY"), BINDING)).value.matches(CANARY)
    assert set(withdrawn) == {"ACME_API_KEY"}
