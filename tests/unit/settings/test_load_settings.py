"""Settings from relay.toml and the environment: what wins, what is refused, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import SettingsError
from relay_gateway.settings import Settings, config_file, load_settings, unknown_variables

CANARY = "canary-7f3a9c51e2"


@pytest.fixture(autouse=True)
def _away_from_any_relay_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.toml"
    path.write_text(text, "utf-8")
    return path


def refusal(environ: Mapping[str, str], path: Path | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, path)
    return str(caught.value).splitlines()


def test_without_any_configuration_the_defaults_hold(tmp_path: Path) -> None:
    settings = load_settings({})
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert (settings.control_host, settings.control_port) == ("127.0.0.1", 8081)
    assert settings.data_dir == tmp_path / "relay-data"
    assert settings.database_url == f"sqlite:///{tmp_path}/relay-data/relay.sqlite3"
    assert settings.database_file == tmp_path / "relay-data" / "relay.sqlite3"
    assert settings.header_prefixes == ("X-Relay-", "X-SVC-")
    assert settings.max_request_bytes == 64 * 1024 * 1024
    assert settings.shutdown_seconds == 30
    assert settings.usage_logging.sinks == ("database",)
    assert settings.plugins.enabled is None
    assert (settings.master_key, settings.admin_token) == ((), None)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'port = 1000\nhost = "::1"')
    settings = load_settings({"RELAY_PORT": "2000"}, path)
    assert (settings.host, settings.port) == ("::1", 2000)


def test_an_empty_variable_counts_as_absent(tmp_path: Path) -> None:
    path = write(tmp_path, "port = 1000")
    assert load_settings({"RELAY_PORT": "", "RELAY_ADMIN_TOKEN": ""}, path).port == 1000


def test_the_database_lies_in_the_data_directory_that_is_configured() -> None:
    settings = load_settings({"RELAY_DATA_DIR": "/var/lib/relay"})
    assert settings.database_url == "sqlite:////var/lib/relay/relay.sqlite3"


def test_postgresql_has_no_database_file() -> None:
    settings = load_settings({"RELAY_DATABASE_URL": "postgresql://relay@127.0.0.1/relay"})
    assert settings.database_file is None


@pytest.mark.parametrize("written", ["off", "OFF", " off "])
def test_the_control_plane_can_be_turned_off(written: str) -> None:
    assert load_settings({"RELAY_CONTROL_PORT": written}).control_port is None


def test_lists_are_comma_separated_in_variables_and_arrays_in_the_file(tmp_path: Path) -> None:
    networks = (IPv4Network("10.0.0.0/8"), IPv6Network("fd00::/8"))
    from_variable = load_settings({"RELAY_EGRESS_DENY": "10.0.0.0/8, fd00::/8,"})
    from_file = load_settings({}, write(tmp_path, 'egress_deny = ["10.0.0.0/8", "fd00::/8"]'))
    assert from_variable.egress_deny == from_file.egress_deny == networks


def test_a_master_key_list_keeps_its_order() -> None:
    ring = load_settings({"RELAY_MASTER_KEY": "first, second"}).master_key
    assert [secret.reveal() for secret in ring] == ["first", "second"]


@pytest.mark.parametrize(("written", "count"), [("1000", 1000), ("2MiB", 2 << 20), ("1 kB", 1000)])
def test_a_size_may_have_a_unit(written: str, count: int) -> None:
    assert load_settings({"RELAY_MAX_REQUEST_BYTES": written}).max_request_bytes == count


def test_plugin_sections_are_kept_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path, '[secret_backends.env]\nallow = ["A"]\n[usage_sinks.database]')
    sections = load_settings({}, path).plugin_sections()
    assert sections["secret_backends"] == {"env": {"allow": ["A"]}}
    assert sections["usage_sinks"] == {"database": {}}
    assert sections["state_stores"] == {}


def test_an_unknown_key_is_refused_by_name_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = write(tmp_path, "prot = 80\n[plugins]\nenable = []")
    assert refusal({}, path) == [
        f"{path}: [plugins] enable: unknown setting",
        f"{path}: prot: unknown setting; did you mean port?",
    ]


def test_every_bad_setting_has_its_own_line() -> None:
    lines = refusal(
        {
            "RELAY_PORT": "http",
            "RELAY_CONTROL_PORT": "65536",
            "RELAY_HOST": "http://somewhere",
            "RELAY_EGRESS_DENY": "everything,nothing",
            "RELAY_LOG_LEVEL": "loud",
            "RELAY_HEADER_PREFIXES": "X-Relay",
            "RELAY_SHUTDOWN_SECONDS": "nan",
            "RELAY_MAX_REQUEST_BYTES": "0",
            "RELAY_DATABASE_URL": "mysql://somewhere",
        }
    )
    named = sorted(line.partition(":")[0] for line in lines)
    assert named == [
        "RELAY_CONTROL_PORT",
        "RELAY_DATABASE_URL",
        "RELAY_EGRESS_DENY",
        "RELAY_HEADER_PREFIXES",
        "RELAY_HOST",
        "RELAY_LOG_LEVEL",
        "RELAY_MAX_REQUEST_BYTES",
        "RELAY_PORT",
        "RELAY_SHUTDOWN_SECONDS",
    ]


@pytest.mark.parametrize(
    "variable", ["RELAY_PORT", "RELAY_DATABASE_URL", "RELAY_LOG_FORMAT", "RELAY_EGRESS_DENY"]
)
def test_a_refusal_never_quotes_the_value(variable: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({variable: CANARY})
    assert CANARY not in str(caught.value)
    assert CANARY not in str(caught.value.__cause__)


@pytest.mark.parametrize("value", ["", "   ", 3, None])
def test_a_blank_secret_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="non-empty string"):
        Settings(master_key=(value,))


def test_a_file_that_is_named_must_exist(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.toml")
    assert refusal({"RELAY_CONFIG": missing}) == [
        f"the configuration file {missing} does not exist or is not a file"
    ]


def test_a_file_that_is_not_toml_is_refused_with_the_place(tmp_path: Path) -> None:
    path = write(tmp_path, "port = = 1")
    (line,) = refusal({}, path)
    assert line.startswith(f"{path}: is not valid TOML")
    assert "line 1" in line


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "given.toml"
    path.write_bytes(b"\xff\xfe")
    assert refusal({}, path) == [f"{path}: is not UTF-8 text"]


def test_relay_toml_of_the_working_directory_is_read_when_nothing_else_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "relay.toml").write_text("port = 3000", "utf-8")
    assert load_settings({}).port == 3000
    other = write(tmp_path, "port = 4000")
    assert load_settings({"RELAY_CONFIG": str(other)}).port == 4000
    assert config_file({}) == Path("relay.toml")


def test_variables_that_mean_nothing_are_found_for_a_warning() -> None:
    environ = {"RELAY_PORT": "1", "RELAY_CONFIG": "", "RELAY_PROT": "1", "OTHER": "1"}
    assert unknown_variables(environ) == ["RELAY_PROT"]


def test_the_key_of_an_application_in_the_same_shell_is_nothing_to_be_warned_of() -> None:
    assert unknown_variables({"RELAY_KEY": "sk-relay-made-up"}) == []


def test_settings_cannot_be_changed() -> None:
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1
