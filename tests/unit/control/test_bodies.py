from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, SecretStr

from relay_gateway.control.bodies import join_path, validate
from relay_gateway.control.crud import parse_version
from relay_gateway.control.naming import class_name
from relay_gateway.control.problems import RefusedError
from relay_gateway.plugin import CatalogModel


class Inner(CatalogModel):
    secret: Annotated[SecretStr, Field(max_length=5)]
    count: int = 0


class Outer(CatalogModel):
    items: list[Inner]
    by_name: dict[Annotated[str, Field(pattern="^[a-z]+$")], int] = Field(default_factory=dict)


def test_fields_are_named_as_the_client_wrote_them() -> None:
    sent = {
        "items": [{"secret": "ok"}, {"secret": "canary-too-long", "count": "1"}],
        "byName": {"A": 1},
    }
    model, problems = validate(Outer, sent, "spec")
    assert model is None
    assert {problem.field: problem.code for problem in problems} == {
        "spec.items[1].secret": "too_long",
        "spec.items[1].count": "int_type",
        "spec.byName.A": "string_pattern_mismatch",
    }


@given(st.text(min_size=6, max_size=40).map(lambda text: f"canary{text}"))
def test_no_problem_quotes_a_value(value: str) -> None:
    sent: dict[str, Any] = {"items": [{"secret": value, "count": value}, value], "byName": value}
    _, problems = validate(Outer, sent)
    assert len(problems) == 4
    assert all("canary" not in f"{problem.message} {problem.code}" for problem in problems)


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        (("spec", "bindings", 0, "hostId"), "spec.bindings[0].hostId"),
        (("spec", "headers", "X-A", "[key]"), "spec.headers.X-A"),
        ((), ""),
    ],
)
def test_a_path_reads_like_the_document(parts: tuple[str | int, ...], path: str) -> None:
    assert join_path(parts) == path


@pytest.mark.parametrize(
    ("header", "version"), [(None, None), ("*", None), ("3", 3), ('"12"', 12), (" 7 ", 7)]
)
def test_a_version_is_read_with_or_without_quotes(header: str | None, version: int | None) -> None:
    assert parse_version(header) == version


@given(st.text(max_size=20).filter(lambda text: not any(c.isdigit() or c == "*" for c in text)))
def test_any_other_version_is_refused(header: str) -> None:
    with pytest.raises(RefusedError, match="If-Match"):
        parse_version(header)


def test_names_of_plugins_become_names_of_schemas() -> None:
    assert class_name("aws-secrets_manager 2") == "AwsSecretsManager2"
