"""Credentials in plugin sections: found by the plugin's own model, so that nothing shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, SecretBytes, SecretStr

from relay_gateway.plugin import PluginContext
from relay_gateway.secret import MASK


def masked(config: type[BaseModel] | None, section: Mapping[str, Any]) -> dict[str, Any]:
    """The section as it may be shown.

    A key that the model does not know may be a credential with a typing error in its name; its
    value is hidden. So is everything where there is no model (the plugin is not installed).
    """
    return _hide_fields(config, section, set())


def secrets_in(config: type[BaseModel], section: Mapping[str, Any]) -> set[str]:
    """The strings that :func:`masked` hides."""
    hidden: set[str] = set()
    _hide_fields(config, section, hidden)
    return hidden


def secrets_of(context: PluginContext) -> set[str]:
    """The credentials that a context gives a plugin."""
    password = urlsplit(context.database_url).password or ""
    keys = {key.reveal() for key in context.master_keys}
    return {secret for secret in keys | {password, unquote(password)} if secret}


def _hide_fields(
    model: type[BaseModel] | None, section: Mapping[str, Any], hidden: set[str]
) -> dict[str, Any]:
    fields = model.model_fields if model else {}
    types = {field.alias or name: field.annotation for name, field in fields.items()}
    types |= {name: field.annotation for name, field in fields.items()}
    return {
        key: _hide(types[key], value, hidden) if key in types else _mask(value, hidden)
        for key, value in section.items()
    }


def _hide(annotation: object, value: Any, hidden: set[str]) -> Any:
    parts = [part for part in _parts(annotation) if isinstance(part, type)]
    if any(issubclass(part, SecretStr | SecretBytes) for part in parts):
        return _mask(value, hidden)
    models = [part for part in parts if issubclass(part, BaseModel)]
    return _hide_inside(models[0], value, hidden) if models else value


def _hide_inside(model: type[BaseModel], value: Any, hidden: set[str]) -> Any:
    if isinstance(value, Mapping):
        return _hide_fields(model, value, hidden)
    if isinstance(value, list):
        return [_hide_inside(model, item, hidden) for item in value]
    return value


def _parts(annotation: object) -> Iterator[object]:
    """A type and everything it is made of: of ``list[SecretStr] | None`` also ``SecretStr``."""
    yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _mask(value: Any, hidden: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _mask(item, hidden) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, hidden) for item in value]
    if isinstance(value, str) and value:
        hidden.add(value)
    return MASK
