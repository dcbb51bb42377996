"""The manifests that the page about compatible hosts shows are accepted as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay_gateway.catalog.kinds import KINDS
from relay_gateway_provider_openai import OpenAIHost, OpenAIProvider

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-compatible-host.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SOME_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def manifests() -> Iterator[dict[str, Any]]:
    for block in BLOCK.findall(PAGE.read_text("utf-8")):
        yield from yaml.safe_load_all(block)


def with_ids(value: Any) -> Any:
    """``value`` with an id in place of each slug that refers to something."""
    if isinstance(value, dict):
        return {
            name: SOME_ID if name.endswith("Id") else with_ids(inner)
            for name, inner in value.items()
        }
    return [with_ids(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("manifest", list(manifests()), ids=lambda one: one["metadata"]["slug"])
def test_documented_manifest_is_valid(manifest: dict[str, Any]) -> None:
    KINDS[manifest["kind"]].spec.model_validate(with_ids(manifest["spec"]))
    if manifest["kind"] == "host":
        OpenAIHost.model_validate(manifest["spec"]["adapterConfig"])
        assert set(manifest["spec"].get("wireFormats", ())) <= set(OpenAIProvider.wire_formats)


def test_page_shows_all_kinds_of_hosts() -> None:
    assert [one["kind"] for one in manifests()].count("host") == 3
