"""Rules of redaction: what is one, what is none, and what of it a refusal says."""

from __future__ import annotations

import time

import pytest
from pydantic import ValidationError

from relay_gateway.catalog.payload_rules import compile_rules, descend, is_credential
from relay_gateway.catalog.sections import PayloadLogging, read_runtime_settings, read_section


def problems(**fields: object) -> dict[str, str]:
    """What is wrong with each field, by its place."""
    with pytest.raises(ValidationError) as caught:
        PayloadLogging.model_validate(fields)
    return {".".join(map(str, detail["loc"])): detail["msg"] for detail in caught.value.errors()}


def test_pointers_and_patterns_are_told_apart_by_their_beginning() -> None:
    rules = compile_rules(("/a/~1b~0/-", r"\d{4}", "/"))
    assert rules.pointers == (("a", "/b~", "-"), ("",))
    assert [list(pattern.spans("a 1234 äß 5678")) for pattern in rules.patterns] == [
        [(2, 6), (10, 14)]
    ]
    assert not compile_rules(())


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("(secret", "missing )"),
        ("secret(?=x)", "invalid perl operator"),
        (r"(secret)\1", "invalid escape sequence"),
        ("(secret|)*", "matches where there is nothing"),
        ("^", "matches where there is nothing"),
        ("/secret~2", "'~' must be followed by 0"),
        ("secret{100000}", "repetition size"),
    ],
)
def test_t65_a_rule_that_is_none_is_refused_without_being_quoted(rule: str, reason: str) -> None:
    found = problems(redact=["fine", rule])
    assert list(found) == ["redact.1"]
    assert reason in found["redact.1"]
    assert "secret" not in found["redact.1"]


def test_without_the_engine_patterns_are_refused_and_pointers_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    found = problems(redact=["/a", "b+"])
    assert list(found) == ["redact.1"]
    assert "relay-gateway[redaction]" in found["redact.1"]


def test_patterns_take_linear_time_whatever_they_are() -> None:
    (pattern,) = compile_rules((r"(a+)+$",)).patterns
    began = time.perf_counter()
    assert list(pattern.spans("a" * 100_000 + "b")) == []
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "name",
    ["Authorization", "x-api-key", "X-Goog-API-Key", "Cookie", "set-cookie", "X-Relay-API-Key",
     "x-acme-apikey", "X-Auth-Token", "x-client-secret", "Proxy-Authorization"],
)  # fmt: skip
def test_t65_headers_that_carry_credentials_cannot_be_listed(name: str) -> None:
    assert problems(headers=["accept", name]) == {
        "headers.1": "names a header that carries credentials, which are never kept"
    }
    assert is_credential(name)


def test_headers_are_kept_by_lower_case_names() -> None:
    assert PayloadLogging.model_validate({"headers": ["User-Agent"]}).headers == ("user-agent",)
    assert problems(headers=["a b"]) == {"headers.0": "must be the name of a header"}
    assert not is_credential("x-ratelimit-remaining-tokens")


def test_t65_a_section_that_cannot_be_read_keeps_nothing() -> None:
    stored = {"enabled": True, "redact": ["(broken"], "maxBytes": 5}
    assert read_section("payload-logging", stored) == PayloadLogging()
    assert not read_runtime_settings({"payload-logging": stored}).payload_logging.enabled
    assert read_runtime_settings({"payload-logging": {"enabled": True}}).payload_logging.enabled


@pytest.mark.parametrize(
    ("name", "element", "left"),
    [
        ("a", False, ((), ("b",))),
        ("-", False, ((), ("x",))),
        ("0", True, ((), ("x",))),
        ("other", False, ((),)),
    ],
)
def test_pointers_are_followed_step_by_step(
    name: str, left: tuple[tuple[str, ...], ...], *, element: bool
) -> None:
    assert descend([("a", "b"), ("*",), ("-", "x"), ()], name, element=element) == left or (
        set(descend([("a", "b"), ("*",), ("-", "x"), ()], name, element=element)) == set(left)
    )
