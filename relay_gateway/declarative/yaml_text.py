"""YAML as manifests use it: read strictly, with the line of every value, and written plainly.

Scalars are those of JSON (the core schema of YAML 1.2, without its other number bases): ``no`` is
a text, ``2030-01-31`` too. What is written is quoted wherever any reader could take it for
something else than a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from relay_gateway.control.bodies import join_path

MAX_DEPTH = 40
MAX_NODES = 200_000
"""How many values one document may have, after its aliases are followed."""
_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR = (_TAG + name for name in ("null", "bool", "int", "float", "str"))
_SCALARS = (
    (_NULL, re.compile(r"(?:~|null|)\Z"), ("~", "n", "")),
    (_BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), tuple("tTfF")),
    (_INT, re.compile(r"[-+]?[0-9]+\Z"), tuple("-+0123456789")),
    (
        _FLOAT,
        re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
        tuple("-+.0123456789"),
    ),
)
_WHOLE = range(-(1 << 63), 1 << 64)


class Fault(msgspec.Struct, frozen=True):
    """What is wrong in a text, at which line (from 1) and in which field."""

    line: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document. ``lines`` has the line of every field, named as in messages
    (``spec.bindings[0].hostId``)."""

    value: Any = field(repr=False)
    line: int
    lines: Mapping[str, int] = field(repr=False)
    faults: tuple[Fault, ...] = ()


class _Loader(yaml.CSafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - how the library wants it


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


def read_documents(text: bytes) -> Iterator[YamlDocument]:
    """The documents of a stream, empty ones left out; one that cannot be read at all is the last,
    with the reason as its only fault."""
    try:
        if (line := _too_deep(text)) is not None:
            yield _unreadable(line, f"is nested deeper than {MAX_DEPTH} levels")
            return
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is not None and not _is_empty(node):
                    yield _Reading().document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "cannot be read"
        yield _unreadable(mark.line + 1 if mark else 1, f"is no YAML: {what}")
    except (yaml.YAMLError, UnicodeDecodeError):
        yield _unreadable(1, "is no YAML: it is no text in UTF-8 or has unprintable characters")


def write_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """``documents`` as one stream, each after a line of three dashes."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=True,
        width=4096,
    )


def _too_deep(text: bytes) -> int | None:
    """The first line that is nested too deeply for a composer that calls itself."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                return int(getattr(event.start_mark, "line", 0)) + 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
    return None


def _unreadable(line: int, message: str) -> YamlDocument:
    return YamlDocument(None, line, {}, (Fault(line, "", message),))


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


class _Reading:
    """One document on its way from nodes to values."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._faults: list[Fault] = []
        self._nodes = 0

    def document(self, root: Node) -> YamlDocument:
        value = self._value(root, "", 0)
        return YamlDocument(value, _line(root), self._lines, tuple(self._faults))

    def _fault(self, node: Node, path: str, message: str) -> None:
        self._faults.append(Fault(_line(node), path, message))

    def _value(self, node: Node, path: str, depth: int) -> Any:
        self._nodes += 1
        self._lines.setdefault(path, _line(node))
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            if self._nodes <= MAX_NODES + 1:
                self._fault(node, path, f"is nested deeper than {MAX_DEPTH} levels or too large")
            return None
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            items = enumerate(node.value)
            return [self._value(item, f"{path}[{i}]", depth + 1) for i, item in items]
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._fault(node, path, f"has the tag {node.tag!r}; manifests have none")
        return None

    def _mapping(self, node: MappingNode, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                self._fault(key, path, "has a name that is no text")
                continue
            inner = join_path([key.value], path)
            if key.value in found:
                first = self._lines.get(inner, _line(node))
                self._fault(key, inner, f"stands twice, first in line {first}")
                continue
            self._lines[inner] = _line(key)
            found[key.value] = self._value(item, inner, depth + 1)
        return found

    def _scalar(self, node: ScalarNode, path: str) -> Any:
        text: str = node.value
        if node.tag == _STR:
            if "\0" in text:
                self._fault(node, path, "contains a NUL character, which cannot be stored")
            return text
        if node.tag in (_INT, _FLOAT):
            return self._number(node, path)
        if node.tag in (_NULL, _BOOL):
            return None if node.tag == _NULL else text.lower() == "true"
        self._fault(node, path, f"has the tag {node.tag!r}; manifests have none")
        return None

    def _number(self, node: ScalarNode, path: str) -> int | float | None:
        text: str = node.value
        try:
            if node.tag == _INT and len(text) < 30 and int(text) in _WHOLE:
                return int(text)
            number = float(text)
            if node.tag == _FLOAT and math.isfinite(number):
                if Decimal(text) == Decimal(repr(number)):
                    return number
                self._fault(node, path, "has more digits than a number keeps; put it in quotes")
                return None
        except ValueError:
            pass
        self._fault(node, path, "is no number that can be kept")
        return None


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
