"""The fields of each kind that lists filter and sort by, found in the models of the kinds."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from pydantic import AwareDatetime, BaseModel
from pydantic.fields import FieldInfo

from relay_gateway.catalog.kinds import Kind
from relay_gateway.catalog.specs import RelayKeyView

FieldType = Literal["text", "number", "flag", "instant", "reference"]

UNSORTED = frozenset({"description", "tls.caFile"})
"""Fields too long to be carried in a cursor."""


class ListField(msgspec.Struct, frozen=True):
    """A field by which a list can be filtered, and sorted unless it is a reference.

    ``path`` leads from the entity to the value; an entity written without the value has
    ``default``. ``names_slug`` says that the slug stands in for an absent value. ``target`` is the
    kind that a reference points at.
    """

    name: str
    type: FieldType
    path: tuple[str, ...]
    default: str | int | float | bool | None = None
    names_slug: bool = False
    target: str | None = None

    @property
    def sortable(self) -> bool:
        """Whether a list can be in this order."""
        return self.type != "reference" and self.name not in UNSORTED


_METADATA = (
    ListField("id", "text", ("id",)),
    ListField("slug", "text", ("slug",)),
    ListField("displayName", "text", ("display_name",)),
    ListField("description", "text", ("description",)),
    ListField("managedBy", "text", ("managed_by",)),
    ListField("version", "number", ("version",)),
    ListField("createdAt", "instant", ("created_at",)),
    ListField("updatedAt", "instant", ("updated_at",)),
)


@cache
def list_fields(kind: Kind) -> Mapping[str, ListField]:
    """The fields of ``kind`` by name: those of metadata under their own names, those of the spec
    with their path (``timeouts.connect``), references with the last step of theirs
    (``hostId`` for ``bindings[].hostId``)."""
    shown = RelayKeyView if kind.name == "relay key" else kind.spec
    references = [
        ListField(
            name=reference.path.split(".")[-1].removesuffix("[]"),
            type="reference",
            path=("spec", reference.path),
            target=reference.target,
        )
        for reference in kind.references
    ]
    taken = {reference.path for reference in kind.references}
    scalars = [
        ListField(name, type_, ("spec", *name.split(".")), default, (kind.name, name) in _SLUGS)
        for name, type_, default in _scalars(shown, "")
        if name not in taken
    ]
    if kind.name == "host key":
        scalars.append(ListField("valueFrom.kind", "text", ("spec", "valueFrom", "kind")))
    return {field.name: field for field in (*_METADATA, *scalars, *references)}


_SLUGS = frozenset({("model", "name")})


def _scalars(
    model: type[BaseModel], prefix: str
) -> Iterator[tuple[str, FieldType, str | int | float | bool | None]]:
    for field in model.model_fields.values():
        name = f"{prefix}{field.alias}"
        annotation = _without_none(field.annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _scalars(annotation, f"{name}.")
        elif (type_ := _scalar_type(annotation)) is not None:
            yield name, type_, _default(field)


def _without_none(annotation: Any) -> Any:
    """``X`` of ``X | None``, and the type that ``Annotated`` is about."""
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = (item for item in get_args(annotation) if item is not type(None))
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


def _scalar_type(annotation: Any) -> FieldType | None:
    if get_origin(annotation) is Literal:
        annotation = type(get_args(annotation)[0])
    scalars: dict[Any, FieldType] = {
        str: "text",
        bool: "flag",
        int: "number",
        float: "number",
        AwareDatetime: "instant",
    }
    return scalars.get(annotation)


def _default(field: FieldInfo) -> str | int | float | bool | None:
    value = field.get_default(call_default_factory=True, validated_data={})
    return value if isinstance(value, str | int | float) else None
