"""The public API changes with a changelog fragment for plugin authors, or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from docs.public_api import (  # noqa: E402 - found by the line above
    API_FRAGMENT,
    ApiChange,
    api_fragments,
    compare,
    describe,
    newest,
    recorded,
    untold,
)

METHOD = "relay_gateway.plugin.secrets.SecretBackend.resolve"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The public modules, to be changed."""
    for name in ("plugin", "testing"):
        shutil.copytree(ROOT / "relay_gateway" / name, tmp_path / "relay_gateway" / name)
    for name in ("errors.py", "secret.py"):
        shutil.copy(ROOT / "relay_gateway" / name, tmp_path / "relay_gateway")
    return tmp_path


def changed(checkout: Path, module: str, old: str, new: str) -> list[ApiChange]:
    path = checkout / "relay_gateway" / module
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return compare(describe(ROOT), describe(checkout))


def test_the_public_api_is_as_recorded_or_a_fragment_tells_its_authors() -> None:
    missing = untold(compare(recorded(newest()), describe(ROOT)), api_fragments())
    assert [f"{change}; {change.needs()}" for change in missing] == []


def test_fragments_about_the_api_are_a_kind_that_the_changelog_has() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'directory = "{API_FRAGMENT.split(".")[1]}"' in project


def test_a_copy_of_the_sources_has_the_same_api(checkout: Path) -> None:
    assert compare(describe(ROOT), describe(checkout)) == []


def test_an_addition_is_fine_once_a_fragment_names_it(checkout: Path) -> None:
    (change,) = changed(checkout, "errors.py", "class RelayError", "class NewError(Exception):\n"
                        '    """New."""\n\n\nclass RelayError')  # fmt: skip
    assert (change.what, change.name) == ("added", "relay_gateway.errors.NewError")
    assert untold([change], ["There is `OtherError`, and NewError without quotes."]) == [change]
    assert "name `relay_gateway.errors.NewError`" in change.needs()
    assert untold([change], ["Plugins may raise `NewError`."]) == []


def test_a_method_is_told_of_with_its_class(checkout: Path) -> None:
    change = ApiChange("added", METHOD, "", "def(self)")
    assert untold([change], ["`SecretBackend` may resolve."]) == []
    assert untold([change], ["`SecretBackend.resolve` is new."]) == []


def test_a_removal_needs_a_deprecation_first(checkout: Path) -> None:
    changes = changed(
        checkout, "plugin/secrets.py", "async def resolve(", "async def _resolve_now("
    )
    (change,) = changes
    assert (change.what, change.name) == ("removed", METHOD)
    assert untold(changes, ["`SecretBackend.resolve` is gone."]) == changes
    assert "deprecate it" in change.needs()
    assert untold(changes, ["`SecretBackend.resolve`, deprecated since 0.2, is gone."]) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("binding: RowBinding", "binding: RowBinding, more: int"),
        ("async def resolve(", "def resolve("),
    ],
    ids=["another argument", "not awaited any more"],
)
def test_another_signature_is_a_change(checkout: Path, old: str, new: str) -> None:
    path = checkout / "relay_gateway" / "plugin" / "secrets.py"
    begin = path.read_text("utf-8").index("class SecretBackend")
    text = path.read_text("utf-8")
    path.write_text(text[:begin] + text[begin:].replace(old, new), "utf-8")
    changes = compare(describe(ROOT), describe(checkout))
    assert METHOD in {change.name for change in changes}
    assert {change.what for change in changes} == {"changed"}
    assert untold(changes, ["`SecretBackend` is better now."]) == changes


def test_what_begins_with_an_underscore_may_change(checkout: Path) -> None:
    assert (
        changed(checkout, "errors.py", "class RelayError", "_SPARE = 1\n\n\nclass RelayError") == []
    )


def test_the_command_of_lint_says_so_too() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "public_api.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
