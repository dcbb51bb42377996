"""The page about the test kit: every suite with its fixtures and its checks, from the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from relay_gateway.testing import conformance
from relay_gateway.testing import plugin as kit

CHECK = "test_"


def conformance_page(text: Callable[[str | None], str]) -> Iterator[str]:
    """The page; ``text`` turns a docstring into Markdown."""
    yield "## Fixtures\n"
    yield (
        "The extra `testing` of `relay-gateway` installs them as a plugin of pytest.\n\n"
        "| fixture | what it is |\n|---|---|"
    )
    for name, function in fixtures(vars(kit)):
        yield f"| `{name}` | {_row(text(function.__doc__))} |"
    yield "\n## Suites\n"
    yield text(conformance.__doc__) + "\n"
    for name, suite in suites():
        yield from _suite(name, suite, text)
    yield "## Samples\n"
    for name in conformance.__all__:
        if not is_suite(getattr(conformance, name)):
            yield f"### `{name}`\n\n{text(getattr(conformance, name).__doc__)}\n"


def suites() -> Iterator[tuple[str, type]]:
    """Every suite, by name."""
    for name in conformance.__all__:
        if is_suite(getattr(conformance, name)):
            yield name, getattr(conformance, name)


def is_suite(thing: object) -> bool:
    """Whether it is a class with checks."""
    return inspect.isclass(thing) and any(name.startswith(CHECK) for name in dir(thing))


def fixtures(members: Any) -> Iterator[tuple[str, Callable[..., object]]]:
    """Every fixture among ``members``, with the function that makes it."""
    for name, value in members.items():
        function = getattr(value, "_get_wrapped_function", None)
        if function is not None and not name.startswith("_"):
            yield name, function()


def checks(suite: type) -> Iterator[tuple[str, str]]:
    """The checks that a suite adds to what it inherits: their names, and what they say."""
    known = {name for base in suite.__mro__[1:] if base.__name__.endswith("Conformance")
             and base.__name__ in conformance.__all__ for name in dir(base)}  # fmt: skip
    for kind in reversed(suite.__mro__):
        for name in vars(kind):
            if name.startswith(CHECK) and name not in known:
                yield name, name.removeprefix(CHECK).replace("_", " ")


def own_fixtures(suite: type) -> dict[str, Callable[..., object]]:
    """All fixtures of a suite, inherited ones too."""
    return {name: made for kind in reversed(suite.__mro__) for name, made in fixtures(vars(kind))}


def _suite(name: str, suite: type, text: Callable[[str | None], str]) -> Iterator[str]:
    yield f"### `{name}`\n\n{text(suite.__doc__)}\n"
    bases = [base.__name__ for base in suite.__mro__[1:] if base.__name__ in conformance.__all__]
    if bases:
        yield f"Includes {', '.join(f'`{base}`' for base in bases)}.\n"
    yield "| fixture | what it is |\n|---|---|"
    for fixture, made in own_fixtures(suite).items():
        yield f"| `{fixture}` | {_row(text(made.__doc__))} |"
    yield ""
    yield from (f"* {claim}" for _, claim in checks(suite))
    yield ""


def _row(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
