"""Sections of relay.toml and the plugins they configure."""

from __future__ import annotations

from typing import Any

import pytest

from relay_gateway.errors import PluginConfigError, PluginUnavailableError
from relay_gateway.registry import PluginKind, Registry

TOKEN = "tok-4f1c"


def registry_of(site: Any, *names: str) -> Registry:
    site.install(*names)
    return Registry.discover(entry_points=site.entry_points())


def test_a_section_that_does_not_validate_refuses_the_start_and_lists_every_key(
    site: Any, context_factory: Any
) -> None:
    registry = registry_of(site, "healthy", "bad_config")
    section = {"url": "nowhere", "token": "t" * 20, "timeout": "soon", "retries": 3}
    with pytest.raises(PluginConfigError) as caught:
        registry.configure({"secret_backends": {"bad_config": section}}, context_factory)
    assert str(caught.value) == (
        "relay.toml: [secret_backends.bad_config] "
        "url: input should be a valid URL, relative URL without a base; "
        "timeout: input should be a valid number, unable to parse string as a number; "
        "retries: unknown key"
    )


def test_all_wrong_sections_are_reported_by_one_start(site: Any, context_factory: Any) -> None:
    registry = registry_of(site, "healthy", "bad_config")
    sections: dict[str, Any] = {
        "secret_backends": {"bad_config": {}, "healty": {}},
        "usage_sinks": {"healthy": {"path": 5, "required": "yes"}},
        "secret_backend": {},
    }
    with pytest.raises(PluginConfigError) as caught:
        registry.configure(sections, context_factory)
    assert str(caught.value) == (
        "relay.toml: [secret_backends.healty] no secret backend named 'healty' is installed; "
        "installed: bad_config, healthy\n"
        "relay.toml: [secret_backend] is for no kind of plugin; there are secret_backends, "
        "upstream_providers, usage_sinks, payload_loggers, state_stores, guards\n"
        "relay.toml: [secret_backends.bad_config] url: field required; token: field required\n"
        "relay.toml: [usage_sinks.healthy] path: input should be a valid string; "
        "required: must be true or false"
    )


def test_a_refused_section_never_shows_its_credential(site: Any, context_factory: Any) -> None:
    registry = registry_of(site, "bad_config")
    section = {"url": "http://127.0.0.1", "token": TOKEN}
    with pytest.raises(PluginConfigError) as caught:
        registry.configure({"secret_backends": {"bad_config": section}}, context_factory)
    assert "token: <secret> is too short" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_section_of_a_quarantined_plugin_refuses_the_start_with_the_reason(
    site: Any, context_factory: Any
) -> None:
    registry = registry_of(site, "healthy", "import_error")
    with pytest.raises(PluginConfigError) as caught:
        registry.configure({"secret_backends": {"import_error": {}}}, context_factory)
    assert "no secret backend named 'import_error' is installed; installed: healthy" in str(
        caught.value
    )
    assert "No module named 'relay_fixture_vendor_sdk'" in str(caught.value)


def test_an_installed_plugin_that_lacks_its_section_waits_for_it(
    site: Any, context_factory: Any
) -> None:
    plugins = registry_of(site, "healthy", "bad_config").configure({}, context_factory)
    assert set(plugins.secret_backends) == {"healthy"}
    error = plugins.unavailable(PluginKind.SECRET_BACKEND, "bad_config")
    assert "not configured: relay.toml needs [secret_backends.bad_config] url: field required" in (
        str(error)
    )


def test_a_valid_section_reaches_the_plugin_without_the_key_of_the_gateway(
    site: Any, context_factory: Any
) -> None:
    section = {"url": "http://127.0.0.1/", "token": "t" * 20, "required": True}
    plugins = registry_of(site, "bad_config").configure(
        {"secret_backends": {"bad_config": section}}, context_factory
    )
    config = plugins.secret_backends["bad_config"].config
    assert str(config.url) == "http://127.0.0.1/"
    assert "required" not in config.model_dump()


def test_a_sink_is_made_when_it_is_first_asked_for_and_only_once(
    site: Any, context_factory: Any
) -> None:
    plugins = registry_of(site, "healthy").configure(
        {"usage_sinks": {"healthy": {"path": "elsewhere"}}}, context_factory
    )
    sinks = [info for info in plugins.inventory() if info.kind == "usage sink"]
    assert [info.state for info in sinks] == ["registered"]
    sink = plugins.usage_sink("healthy")
    assert sink.config.path == "elsewhere"
    assert plugins.usage_sink("healthy") is sink
    assert plugins.payload_logger("healthy").name == "healthy"
    assert plugins.state_store("healthy").name == "healthy"


def test_asking_for_a_sink_that_is_not_installed_names_those_that_are(
    site: Any, context_factory: Any
) -> None:
    plugins = registry_of(site, "healthy", "misspelt_hook").configure({}, context_factory)
    with pytest.raises(PluginUnavailableError) as caught:
        plugins.usage_sink("file")
    assert str(caught.value).startswith(
        "no usage sink named 'file' is installed; installed: healthy"
    )
    assert "did you mean relay_register_secret_backends?" in str(caught.value)


def test_endpoints_and_dialects_come_from_the_wire_formats_of_providers(
    site: Any, context_factory: Any
) -> None:
    plugins = registry_of(site, "healthy", "raising").configure({}, context_factory)
    assert [served.endpoint.path for served in plugins.endpoints] == ["/v1/healthy/chat"]
    assert plugins.endpoints[0].wire_format is plugins.wire_formats["healthy.chat"]
    assert {name: dialect.name for name, dialect in plugins.dialects.items()} == {
        "default": "default",
        "healthy": "healthy",
    }


def test_a_provider_of_an_undefined_wire_format_is_warned_of(
    site: Any, context_factory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = registry_of(site, "raising").configure({}, context_factory)
    assert set(plugins.providers) == {"raising"}
    assert "raising speaks healthy.chat, which no installed plugin defines" in caplog.text


def test_sections_are_shown_without_credentials(site: Any) -> None:
    registry = registry_of(site, "bad_config")
    sections: dict[str, Any] = {
        "secret_backends": {
            "bad_config": {"url": "http://127.0.0.1", "token": TOKEN, "tokn": TOKEN},
            "absent": {"anything": TOKEN, "more": {"nested": [TOKEN]}},
        }
    }
    shown = registry.masked(sections)
    assert shown["secret_backends"]["bad_config"]["url"] == "http://127.0.0.1"
    assert TOKEN not in repr(shown)
    assert shown["secret_backends"]["absent"]["more"] == {"nested": ["<secret>"]}
