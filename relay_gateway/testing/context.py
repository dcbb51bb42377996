"""The world that a plugin under test lives in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relay_gateway.plugin import Clock, PluginContext, ResolvedSecret
from relay_gateway.secret import Secret
from relay_gateway.testing.clock import FakeClock


def master_key(seed: str = "first") -> Secret:
    """A valid master key (32 bytes in standard base64), the same one for the same ``seed``."""
    return Secret(base64.b64encode(hashlib.sha256(seed.encode()).digest()).decode())


def plugin_context(
    directory: Path,
    *,
    plugin: str = "under-test",
    database_url: str | None = None,
    master_keys: Sequence[Secret] | None = None,
    environ: Mapping[str, str] | None = None,
    resolve_secret: Callable[[Mapping[str, Any]], Awaitable[ResolvedSecret]] | None = None,
    clock: Clock | None = None,
    max_threads: int = 4,
) -> PluginContext:
    """A context below ``directory`` (``tmp_path``): SQLite there, one master key, no environment.

    ``environ`` is all that the plugin can see of the environment, ``resolve_secret`` plays the
    secret backends. The caller closes the context.
    """
    variables = dict(environ or {})
    context = PluginContext(
        plugin=plugin,
        data_dir=directory,
        database_url=database_url or f"sqlite:///{directory / 'relay.sqlite3'}",
        master_keys=(master_key(),) if master_keys is None else tuple(master_keys),
        environ=variables.get,
        clock=clock or FakeClock(),
        max_threads=max_threads,
    )
    if resolve_secret is not None:
        context.resolve_secret = resolve_secret
    return context
