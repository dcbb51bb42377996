"""Manifests: which files are read, and what every fault in them is called."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from relay_gateway.declarative.manifests import Manifest, read_manifests
from relay_gateway.declarative.problems import InvalidManifestsError
from relay_gateway.declarative.selector import parse_selector, selects
from relay_gateway.errors import ConfigurationError


def document(slug: str, kind: str = "provider") -> str:
    return f"---\nkind: {kind}\nmetadata: {{slug: {slug}}}\n"


def read(text: str) -> list[Manifest]:
    return read_manifests(["-"], io.BytesIO(text.encode()))


def refused(text: str) -> list[str]:
    with pytest.raises(InvalidManifestsError) as refusal:
        read(text)
    return str(refusal.value).splitlines()


def test_a_directory_is_read_whole_in_order_and_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/.hidden.yaml", ".git/c.yaml", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(document(path.stem.strip(".")))
    assert [m.slug for m in read_manifests([str(tmp_path)])] == ["z", "b"]


def test_several_sources_make_one_set_and_a_repeated_one_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(document("a") + document("b", "rate-limit"))
    found = read_manifests([str(path), "-", str(path)], io.BytesIO(document("c").encode()))
    assert [m.entity for m in found] == ["provider a", "rate limit b", "provider c"]
    assert [m.directory for m in found] == [tmp_path, tmp_path, None]


def test_every_fault_of_every_document_is_told_with_its_line() -> None:
    text = (
        "kind: provider\nmetadata: {slug: UPPER}\nspec: 5\n"
        "---\nkind: thing\nmetadata:\n  slug: a\n  managedBy: me\nextra: 1\n"
        "---\n- no mapping\n"
        "---\nmetadata: {slug: b}\n"
    )
    assert [line.rpartition(": ")[0].removeprefix("standard input:") for line in refused(text)] == [
        "2: metadata.slug: is required",
        "3: spec",
        "5: kind",
        "8: metadata.managedBy",
        "9: extra",
        "11",
        "13: kind",
    ]


def test_an_entity_that_is_declared_twice_is_refused() -> None:
    (line,) = refused(document("a") + document("a"))
    assert line == (
        "standard input:6: provider a: metadata.slug: is declared twice, first at standard input:2"
    )


def test_the_same_slug_is_free_for_another_kind() -> None:
    assert len(read(document("a") + document("a", "pricing"))) == 2


def test_sources_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.yaml cannot be read: No such file"):
        read_manifests([str(tmp_path / "missing.yaml")])
    with pytest.raises(ConfigurationError, match="has no file that ends with"):
        read_manifests([str(tmp_path)])


def test_selectors_need_every_label() -> None:
    selector = parse_selector(["team=x,stage=test", "empty="])
    assert selects(selector, {"team": "x", "stage": "test", "empty": "", "more": "1"})
    assert not selects(selector, {"team": "x", "stage": "test"})
    for text in ("team", "=x", "a=1,a=2", ""):
        with pytest.raises(ConfigurationError, match="is not NAME=VALUE"):
            parse_selector([text])
