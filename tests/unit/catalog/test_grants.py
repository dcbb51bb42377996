"""Grants and denies compile into constant-time answers."""

from __future__ import annotations

import pytest

from relay_gateway.catalog.grants import GrantCompiler, GrantedModel

EAST, WEST = "id-east", "id-west"
BOTH = frozenset({EAST, WEST})
MODELS = (
    GrantedModel("m1", "acme-large", "acme-large", "acme", BOTH),
    GrantedModel("m2", "acme/small@v2", "acme-small", "acme", frozenset({EAST})),
    GrantedModel("m3", "bolt.1", "bolt-1", "bolt", frozenset({WEST})),
    GrantedModel("m4", "idle", "idle", "bolt", frozenset()),
)


@pytest.fixture
def compiler() -> GrantCompiler:
    return GrantCompiler(MODELS, {"east": EAST, "west": WEST})


@pytest.mark.parametrize(
    ("grants", "denies", "expected"),
    [
        (["*"], [], {"m1": BOTH, "m2": {EAST}, "m3": {WEST}, "m4": set()}),
        ([], [], {}),
        (["acme"], [], {"m1": BOTH, "m2": {EAST}}),
        (["acme-large"], [], {"m1": BOTH}),
        (["acme/acme-large"], [], {"m1": BOTH}),
        (["acme/small@v2"], [], {"m2": {EAST}}),
        (["acme-small"], [], {"m2": {EAST}}),
        (["@west"], [], {"m1": {WEST}, "m3": {WEST}}),
        (["acme@west"], [], {"m1": {WEST}}),
        (["acme/acme-large@east"], [], {"m1": {EAST}}),
        (["*"], ["acme"], {"m3": {WEST}, "m4": set()}),
        (["*"], ["@east"], {"m1": {WEST}, "m3": {WEST}, "m4": set()}),
        (["acme-large"], ["acme-large@west"], {"m1": {EAST}}),
        (["acme"], ["*"], {}),
        (["nobody", "acme@nowhere", "@"], [], {}),
        (["bolt.1"], ["bolt.2"], {"m3": {WEST}}),
    ],
)
def test_references_mean_models_at_hosts_and_a_deny_wins(
    compiler: GrantCompiler, grants: list[str], denies: list[str], expected: dict[str, set[str]]
) -> None:
    compiled = compiler.compile(grants, denies)
    assert {model: set(hosts) for model, hosts in compiled.hosts_by_model.items()} == {
        model: set(hosts) for model, hosts in expected.items()
    }


@pytest.mark.parametrize(
    ("grants", "denies", "model", "host", "rule"),
    [
        (["*"], ["acme"], "m1", None, "acme"),
        (["*"], ["bolt", "acme/acme-large", "acme"], "m1", None, "acme/acme-large"),
        (["acme-large"], ["acme-large@west"], "m1", WEST, "acme-large@west"),
        (["acme-large"], ["acme-large@west"], "m1", EAST, None),
        (["acme-large@east"], ["@west"], "m1", WEST, None),
        (["bolt"], ["acme"], "m1", None, None),
        (["*"], ["@east", "*"], "m4", None, "*"),
        (["*"], [], "m1", None, None),
    ],
)
def test_the_deny_that_takes_a_granted_model_away_is_known(
    compiler: GrantCompiler,
    grants: list[str],
    denies: list[str],
    model: str,
    host: str | None,
    rule: str | None,
) -> None:
    assert compiler.compile(grants, denies).deny_of(model, host) == rule


def test_equal_lists_of_many_policies_are_compiled_once(compiler: GrantCompiler) -> None:
    assert compiler.compile(["acme"], []) is compiler.compile(["acme"], [])


def test_a_model_is_allowed_only_at_granted_hosts(compiler: GrantCompiler) -> None:
    grants = compiler.compile(["acme-large@east"], [])
    assert grants.allows("m1", EAST)
    assert not grants.allows("m1", WEST)
    assert not grants.allows("m3", WEST)
    assert grants.hosts("m3") is None
