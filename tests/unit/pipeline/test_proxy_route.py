"""The host of a request in proxy mode: pinned, at its prefix, or by its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_gateway.catalog.snapshot import Policy, Snapshot
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.proxy_route import Errand, ProxyRouter, upstream_path
from relay_gateway.plugin import PluginConfig
from relay_gateway.testing.catalog import CatalogDraft, PlainProvider
from relay_gateway.testing.context import plugin_context


class Town:
    """Hosts at two prefixes: ``a`` alone at ``one``, ``b`` and ``c`` together at ``two``."""

    def __init__(self, directory: Path, **host_a: Any) -> None:
        self.draft = CatalogDraft()
        vendor = self.draft.add("provider", "acme", {})
        a = self.draft.host("a", pathPrefix="one", **host_a)
        b = self.draft.host("b", pathPrefix="two")
        c = self.draft.host("c", pathPrefix="two")
        binding = {"hostId": a, "upstreamName": "m-2026"}
        self.draft.model("m", [a], provider_id=vendor, aliases=["alias-*"], bindings=[binding])
        self.draft.model("n", [b, c], provider_id=vendor)
        self.draft.model("o", [c], provider_id=vendor)
        self._provider = PlainProvider(PluginConfig(), plugin_context(directory))
        self.router = ProxyRouter()

    def under(self, *models: str) -> tuple[Snapshot, Policy]:
        """A snapshot, and a policy in it that grants ``models``."""
        policy = self.draft.policy(f"p{len(self.draft.rows)}", models=list(models))
        snapshot = self.draft.snapshot({"plain": self._provider}, {})
        return snapshot, snapshot.policies[policy]


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def errand(prefix: str | None = None, pin: str | None = None) -> Errand:
    return Errand(prefix, "/v1/plain", b"", pin, names_model=True)


def refusal(error: pytest.ExceptionInfo[RequestRefusedError]) -> tuple[int, str]:
    return error.value.status, error.value.code


def test_a_pinned_host_is_taken_whatever_the_prefix(town: Town) -> None:
    snapshot, policy = town.under("*")
    for prefix in (None, "one", "two"):
        host = town.router.host(snapshot, policy, errand(prefix, "b"))
        assert host is not None
        assert host.slug == "b"


def test_t03_a_pin_that_is_no_host_of_the_catalog_is_refused(town: Town) -> None:
    snapshot, policy = town.under("*")
    for pin in ("127.0.0.1", "http://a.test", "A", ""):
        with pytest.raises(RequestRefusedError) as error:
            town.router.host(snapshot, policy, errand(pin=pin))
        assert refusal(error) == (400, "invalid_request")


def test_the_only_host_with_the_prefix_is_taken_and_of_several_the_allowed_one(town: Town) -> None:
    snapshot, policy = town.under("*")
    host = town.router.host(snapshot, policy, errand("one"))
    assert host is not None
    assert host.slug == "a"
    assert town.router.host(snapshot, policy, errand("two")) is None
    snapshot, policy = town.under("o")
    host = town.router.host(snapshot, policy, errand("two"))
    assert host is not None
    assert host.slug == "c"


@pytest.mark.parametrize(("prefix", "pin"), [("one", None), (None, "a"), ("two", "a")])
def test_a_host_at_which_the_policy_grants_nothing_is_refused(
    town: Town, prefix: str | None, pin: str | None
) -> None:
    snapshot, policy = town.under("n")
    with pytest.raises(RequestRefusedError) as error:
        town.router.host(snapshot, policy, errand(prefix, pin))
    assert refusal(error) == (403, "model_not_allowed")


@pytest.mark.parametrize(("prefix", "pin"), [("one", None), (None, "a")])
def test_a_host_that_is_closed_to_proxy_mode_is_refused(
    tmp_path: Path, prefix: str | None, pin: str | None
) -> None:
    town = Town(tmp_path, proxyMode=False)
    snapshot, policy = town.under("*")
    with pytest.raises(RequestRefusedError, match="'a'") as error:
        town.router.host(snapshot, policy, errand(prefix, pin))
    assert refusal(error) == (403, "proxy_mode_disabled")
    with pytest.raises(RequestRefusedError) as error:
        town.router.by_model(snapshot, policy, errand(), "m", "plain.chat")
    assert refusal(error) == (403, "proxy_mode_disabled")


def test_without_pin_and_prefix_the_model_decides(town: Town) -> None:
    snapshot, policy = town.under("*")
    by_model = town.router.by_model
    assert by_model(snapshot, policy, errand(), "n", "plain.chat").slug == "b"
    assert by_model(snapshot, policy, errand(), "m-2026", "").slug == "a"
    assert by_model(snapshot, policy, errand(), "alias-1", "plain.chat").slug == "a"
    assert by_model(snapshot, policy, errand("two"), "o", "plain.chat").slug == "c"


def test_a_model_is_not_sent_with_a_credential_to_another_prefix(town: Town) -> None:
    snapshot, policy = town.under("*")
    with pytest.raises(RequestRefusedError) as error:
        town.router.by_model(snapshot, policy, errand("two"), "m", "plain.chat")
    assert refusal(error) == (400, "invalid_request")


def test_a_host_that_does_not_speak_the_format_of_the_endpoint_is_not_chosen(town: Town) -> None:
    snapshot, policy = town.under("*")
    with pytest.raises(RequestRefusedError) as error:
        town.router.by_model(snapshot, policy, errand(), "m", "other.chat")
    assert refusal(error) == (400, "invalid_request")


@pytest.mark.parametrize("name", ["n", "nobody", "m@b"])
def test_a_model_that_is_not_granted_is_403_known_or_not(town: Town, name: str) -> None:
    snapshot, policy = town.under("m")
    host = snapshot.hosts_by_slug["a"]
    with pytest.raises(RequestRefusedError) as error:
        town.router.judge(snapshot, policy, host, name)
    assert refusal(error) == (403, "model_not_allowed")
    with pytest.raises(RequestRefusedError) as error:
        town.router.by_model(snapshot, policy, errand(), name, "plain.chat")
    assert refusal(error) == (403, "model_not_allowed")


def test_a_name_means_what_the_host_calls_so_before_what_the_catalog_does(tmp_path: Path) -> None:
    town = Town(tmp_path)
    a, vendor = town.draft.rows[1].id, town.draft.rows[0].id
    bound = [{"hostId": a, "upstreamName": "m"}]
    town.draft.model("dear", [a], provider_id=vendor, bindings=bound)
    snapshot, policy = town.under("m")
    host = snapshot.hosts_by_slug["a"]
    with pytest.raises(RequestRefusedError):
        town.router.judge(snapshot, policy, host, "m")
    served = town.router.judge(snapshot, policy, host, "m-2026")
    assert served is not None
    assert served.model.name == "m"


def test_without_a_policy_an_unknown_model_is_nobodys_concern(town: Town) -> None:
    snapshot, _ = town.under("*")
    host = snapshot.hosts_by_slug["a"]
    assert town.router.judge(snapshot, None, host, "nobody") is None
    served = town.router.judge(snapshot, None, host, "m-2026")
    assert served is not None
    assert served.model.name == "m"


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("", "/v1/x", "/v1/x"),
        ("/v1", "/v1/x", "/v1/x"),
        ("/v1", "/x", "/v1/x"),
        ("/openai/v1", "/v1/x?", "/openai/v1/x?"),
        ("/api", "/v1/x", "/api/v1/x"),
        ("/v1", "/v1beta/x", "/v1/v1beta/x"),
        ("/v1", "/v1", "/v1"),
        ("/v1", "/", "/v1/"),
    ],
)
def test_the_version_is_not_there_twice(base: str, path: str, expected: str) -> None:
    assert upstream_path(base, path) == expected
