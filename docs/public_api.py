"""The public API of plugins as data: what there is, what of it has changed since it was recorded.

``python docs/public_api.py`` says what has changed; with ``--record`` it writes the record of the
version that this checkout has.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parent.parent
RECORDS: Final = ROOT / "docs" / "reference" / "api"
FRAGMENTS: Final = ROOT / "changelog.d"
WHOLE: Final = ("plugin", "testing/conformance")
"""Packages of which every module is public."""
SINGLE: Final = (
    "errors",
    "secret",
    "testing/canary",
    "testing/clock",
    "testing/context",
    "testing/gateway_app",
    "testing/plugin",
    "testing/plugin_tests",
    "testing/records",
    "testing/script",
    "testing/upstream",
)
SUITES: Final = "testing.conformance"
"""Where only classes and types are public: the rest is what the checks are made of."""
LONGEST: Final = 200
"""Characters of a value that are kept."""
API_FRAGMENT: Final = "*.api.md"

Api = Mapping[str, str]
"""Full name → its signature, its type, or what it is exported from."""
What = Literal["added", "removed", "changed"]
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class ApiChange:
    """One name that is not as it was recorded."""

    what: What
    name: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if self.what == "changed":
            return f"changed {self.name}: {self.before}  →  {self.after}"
        return f"{self.what} {self.name}: {self.before or self.after}"

    def needs(self) -> str:
        """What a maintainer has to do before this may be released."""
        if self.what == "added":
            return f"name `{self.name}` in changelog.d/+<word>.api.md"
        return (
            f"put {self.name} back and deprecate it (a hook with warn_on_impl); or, when its time "
            "of deprecation is over, say so in changelog.d/+<word>.api.md, with its name and since "
            "which version it was deprecated"
        )


def describe(root: Path) -> Api:
    """The public API of the core whose sources are below ``root``."""
    package = root / "relay_gateway"
    files = [path for name in WHOLE for path in (package / name).rglob("*.py")]
    files += [package / f"{name}.py" for name in SINGLE]
    found: dict[str, str] = {}
    for path in files:
        parts = path.relative_to(root).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        found.update(_module(module, ast.parse(path.read_text("utf-8"))))
    return dict(sorted(found.items()))


def compare(before: Api, after: Api) -> list[ApiChange]:
    """What is different."""
    changes = [ApiChange("removed", name, before[name]) for name in before.keys() - after.keys()]
    changes += [ApiChange("added", name, "", after[name]) for name in after.keys() - before.keys()]
    changes += [
        ApiChange("changed", name, before[name], after[name])
        for name in before.keys() & after.keys()
        if before[name] != after[name]
    ]
    return sorted(changes, key=lambda change: change.name)


def untold(changes: Iterable[ApiChange], fragments: Iterable[str]) -> list[ApiChange]:
    """The changes that no fragment tells of. A fragment has the name in backquotes, or that of the
    class that it belongs to; of what was removed or changed it also says since when it was
    deprecated."""
    texts = list(fragments)
    final = [text for text in texts if re.search(r"deprecated since \d", text)]
    return [
        change
        for change in changes
        if not _is_named(change, texts if change.what == "added" else final)
    ]


def recorded(version: str) -> Api:
    """The API that a version had. Raises :class:`FileNotFoundError` for one without a record."""
    found: dict[str, str] = json.loads((RECORDS / f"{version}.json").read_text("utf-8"))
    return found


def newest() -> str:
    """The last version that was recorded."""
    return max((path.stem for path in RECORDS.glob("*.json")), key=_order)


def api_fragments() -> list[str]:
    """The texts of the fragments about the API."""
    return [path.read_text("utf-8") for path in sorted(FRAGMENTS.glob(API_FRAGMENT))]


def main(arguments: list[str]) -> int:
    """Prints what has changed, or records what there is; the exit code."""
    present = describe(ROOT)
    if "--record" in arguments:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        RECORDS.mkdir(exist_ok=True)
        text = json.dumps(present, indent=1, ensure_ascii=False)
        (RECORDS / f"{project['version']}.json").write_text(f"{text}\n", "utf-8")
        return 0
    changes = compare(recorded(newest()), present)
    missing = untold(changes, api_fragments())
    for change in changes:
        print(change)
    for change in missing:
        print(f"→ {change.needs()}")
    return 1 if missing else 0


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _is_named(change: ApiChange, texts: Iterable[str]) -> bool:
    parts = change.name.split(".")
    class_and_below = [part for part in parts if part[:1].isupper()] + parts[-1:]
    quoted = (code for text in texts for code in re.findall(r"`([^`]+)`", text))
    words = {word.split(".")[-1] for code in quoted for word in re.findall(r"[\w.]+", code)}
    return not words.isdisjoint(class_and_below)


def _module(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    exported = _exported(tree)
    for name, text in _defined(module, tree):
        own = name.removeprefix(f"{module}.").partition(".")[0]
        if own in exported or (not exported and (_is_type(own) or SUITES not in module)):
            yield name, text


def _defined(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and _public(node.name):
            yield from _class(f"{module}.{node.name}", node)
        elif isinstance(node, _FUNCTION) and _public(node.name):
            yield f"{module}.{node.name}", _function(node)
        elif isinstance(node, ast.ImportFrom) and _exported(tree):
            for alias in node.names:
                yield f"{module}.{alias.name}", f"from {node.module}"
        else:
            yield from _values(module, node)


def _class(name: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    arguments = [ast.unparse(one) for one in (*node.bases, *node.keywords)]
    yield name, f"{_decorators(node)}class({', '.join(arguments)})"
    for member in node.body:
        if isinstance(member, _FUNCTION) and member.name.startswith("test_"):
            yield f"{name}.{member.name}", "check"
        elif isinstance(member, _FUNCTION) and (_public(member.name) or member.name == "__init__"):
            yield f"{name}.{member.name}", _function(member)
        elif isinstance(member, ast.ClassDef) and _public(member.name):
            yield from _class(f"{name}.{member.name}", member)
        else:
            yield from _values(name, member)


def _values(owner: str, node: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        value = "" if node.value is None else f" = {ast.unparse(node.value)}"
        if _public(node.target.id):
            yield f"{owner}.{node.target.id}", f"{ast.unparse(node.annotation)}{value}"[:LONGEST]
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and _public(target.id):
                yield f"{owner}.{target.id}", ast.unparse(node.value)[:LONGEST]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{_decorators(node)}{kind}({ast.unparse(node.args)}){returns}"


def _decorators(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "".join(f"@{ast.unparse(one)} " for one in node.decorator_list)


def _public(name: str) -> bool:
    return not name.startswith("_")


def _is_type(name: str) -> bool:
    return name[:1].isupper() and not name.isupper()


def _exported(tree: ast.Module) -> frozenset[str]:
    """What the module says is for others, where it does."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
