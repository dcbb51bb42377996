"""What a plugin must look like; whatever does not is refused in words its author understands."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator, Sequence

from relay_gateway.errors import PluginLoadError
from relay_gateway.plugin import (
    API_VERSION,
    AdapterConfig,
    CatalogSeed,
    Dialect,
    Endpoint,
    Guard,
    GuardConfig,
    Plugin,
    PluginConfig,
    SecretBackend,
    SecretRef,
    UpstreamProvider,
    WireFormat,
)
from relay_gateway.plugin.hookspecs import PROJECT_NAME
from relay_gateway.registry.kinds import PluginKind

REQUIRED_KEY = "required"
"""Key of every plugin's section that is the registry's and never reaches the plugin's own model."""

_HOOK_PREFIX = "relay_register_"
_HOOKS = tuple(kind.hook for kind in PluginKind)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_WIRE_FORMAT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)+")


def vet_attributes(plugin: object) -> None:
    """Refuses a hook that would never be called: misspelt, or not marked as one."""
    for name in dir(plugin):
        if not name.startswith(_HOOK_PREFIX):
            continue
        if name not in _HOOKS:
            close = difflib.get_close_matches(name, _HOOKS, n=1, cutoff=0.0)[0]
            raise PluginLoadError(f"{name} is no hook; did you mean {close}?")
        # Static, because looking is not a reason to run a property of the plugin.
        if not _marked(inspect.getattr_static(plugin, name)):
            raise PluginLoadError(f"{name} is not marked with @hookimpl, so it would not be called")


def _marked(attribute: object) -> bool:
    function = getattr(attribute, "__func__", attribute)
    marker = f"{PROJECT_NAME}_impl"
    return hasattr(attribute, marker) or hasattr(function, marker)


def vet_answer(kind: PluginKind, answer: object) -> Sequence[object]:
    """The items of a hook's answer. Raises :class:`PluginLoadError` for what is no sequence."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise PluginLoadError(f"{kind.hook} is async; hooks are plain functions")
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise PluginLoadError(f"{kind.hook} returned {answer!r} instead of a sequence")
    return answer


def vet_item(kind: PluginKind, item: object) -> str:
    """The name under which an item of a hook's answer goes; refuses what is not of its kind."""
    if kind is PluginKind.CATALOG_SEED:
        if not isinstance(item, CatalogSeed):
            raise PluginLoadError(f"{kind.hook} returned {item!r}, which is no CatalogSeed")
        return _vetted_name(item.name, f"the name of {item!r}")
    if not (isinstance(item, type) and issubclass(item, Plugin) and issubclass(item, kind.base)):
        raise PluginLoadError(
            f"{kind.hook} returned {item!r}, which is no subclass of {kind.base.__name__}"
        )
    problem = next(_problems(item), None)
    if problem is not None:
        raise PluginLoadError(f"{item.__module__}.{item.__qualname__} {problem}")
    return item.name


def _problems(plugin: type[Plugin[PluginConfig]]) -> Iterator[str]:
    if plugin.api_version != API_VERSION:
        # Nothing else is judged by the rules of an API that the class was not written for.
        yield (
            f"is written for version {plugin.api_version} of the plugin API, "
            f"this gateway has version {API_VERSION}"
        )
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield f"has the name {name!r}; it must be lower-case letters, digits, '-' and '_'"
    if not _derives(plugin.Config, PluginConfig):
        yield "has a Config that is no subclass of PluginConfig"
    elif REQUIRED_KEY in plugin.Config.model_fields:
        yield f"has a field {REQUIRED_KEY!r} in its Config; that key is the gateway's own"
    if issubclass(plugin, SecretBackend):
        yield from _backend_problems(plugin)
    if issubclass(plugin, UpstreamProvider):
        yield from _provider_problems(plugin)
    if issubclass(plugin, Guard) and not _derives(plugin.Config, GuardConfig):
        yield "has a Config that is no subclass of GuardConfig"


def _backend_problems(backend: type[SecretBackend[PluginConfig]]) -> Iterator[str]:
    if not _derives(getattr(backend, "Ref", None), SecretRef):
        yield "has a Ref that is no subclass of SecretRef"
        return
    for attribute in ("Ref", "StoredRef", "PublicRef"):
        model = getattr(backend, attribute)
        if model is None:
            continue
        if not _derives(model, SecretRef):
            yield f"has a {attribute} that is no subclass of SecretRef"
        elif model.model_fields["kind"].default != backend.name:
            yield f"has a {attribute} whose kind is not the backend's name, {backend.name!r}"


def _provider_problems(provider: type[UpstreamProvider[PluginConfig]]) -> Iterator[str]:
    if not _derives(provider.HostConfig, AdapterConfig):
        yield "has a HostConfig that is no subclass of AdapterConfig"
    spoken = getattr(provider, "wire_formats", ())
    if not isinstance(spoken, tuple) or not spoken:
        yield "names no wire format: wire_formats must be a tuple of names"
    for wire_format in provider.defines:
        yield from _wire_format_problems(wire_format)


def _wire_format_problems(wire_format: object) -> Iterator[str]:
    if not (isinstance(wire_format, type) and issubclass(wire_format, WireFormat)):
        yield f"defines {wire_format!r}, which is no subclass of WireFormat"
        return
    name = getattr(wire_format, "name", None)
    if not isinstance(name, str) or not _WIRE_FORMAT_NAME.fullmatch(name):
        yield f"defines a wire format named {name!r}; such a name has the form family.operation"
    endpoints: Sequence[object] = wire_format.endpoints
    for endpoint in endpoints:
        if not isinstance(endpoint, Endpoint) or not endpoint.path.startswith("/v1"):
            yield f"defines {name} at {endpoint!r}, which is no Endpoint below /v1"
    if not _derives(wire_format.dialect, Dialect):
        yield f"defines {name} with a dialect that is no subclass of Dialect"
    elif wire_format.dialect is not Dialect and wire_format.dialect.name == Dialect.name:
        yield f"defines {name} in a dialect without a name of its own"
    else:
        # Made once here, where a mistake in it concerns this plugin only.
        wire_format()
        wire_format.dialect()


def _vetted_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PluginLoadError(f"{what} must be lower-case letters, digits, '-' and '_'")
    return name


def _derives(candidate: object, base: type[object]) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, base)
