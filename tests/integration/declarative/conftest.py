"""A declared catalog over a migrated database, with a backend that keeps values in the catalog."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.declarative.catalog import DeclaredCatalog, ExportRequest
from relay_gateway.declarative.credentials import CredentialSources
from relay_gateway.declarative.manifests import read_manifests
from relay_gateway.declarative.plan import Plan
from relay_gateway.declarative.selector import Selector
from relay_gateway.declarative.yaml_text import write_documents
from relay_gateway.errors import SecretDeniedError, SecretRefError
from relay_gateway.plugin import (
    AdapterConfig,
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
    UpstreamProvider,
)
from relay_gateway.storage import CatalogStore, create_engine, migrate
from relay_gateway.testing.catalog import TableBackend
from relay_gateway.testing.context import plugin_context


class BoxRef(SecretRef):
    kind: Literal["box"] = "box"
    value: SecretStr | None = None


class BoxedRef(SecretRef):
    kind: Literal["box"] = "box"
    reversed: str
    place: str


class ShownRef(SecretRef):
    kind: Literal["box"] = "box"
    length: int


class BoxSecrets(SecretBackend[PluginConfig]):
    """Keeps values reversed and bound to their place."""

    name: ClassVar[str] = "box"
    Ref = BoxRef
    StoredRef = BoxedRef
    PublicRef = ShownRef

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        assert isinstance(ref, BoxRef)
        if ref.value is not None:
            return BoxedRef(reversed=ref.value.get_secret_value()[::-1], place=repr(binding))
        if previous is None:
            raise SecretRefError("a credential is needed here", field="value")
        return previous

    def publish(self, stored: SecretRef) -> SecretRef:
        assert isinstance(stored, BoxedRef)
        return ShownRef(length=len(stored.reversed))

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        assert isinstance(stored, BoxedRef)
        if stored.place != repr(binding):
            raise SecretDeniedError("sealed for another place")
        return ResolvedSecret(Secret(stored.reversed[::-1]))


class FastConfig(AdapterConfig):
    latency_ms: int = 0
    region: Literal["eu", "us"] = "eu"


class FastProvider(UpstreamProvider[PluginConfig]):
    name: ClassVar[str] = "fast"
    wire_formats: ClassVar[tuple[str, ...]] = ("fast.chat", "fast.embed")
    HostConfig = FastConfig


class World:
    """A catalog and what surrounds those who declare it."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.store = CatalogStore(engine)
        self.environ: dict[str, str] = {}
        context = plugin_context(Path())
        sources = CredentialSources(
            {"box": BoxSecrets(PluginConfig(), context), "table": TableBackend(directory=Path())},
            self.environ.get,
        )
        providers: dict[str, UpstreamProvider[Any]] = {
            "fast": FastProvider(PluginConfig(), context)
        }
        self.catalog = DeclaredCatalog(self.store, providers, sources)

    async def plan(self, text: str, prune: Selector | None = None, *, rebind: bool = False) -> Plan:
        """The plan of manifests on standard input."""
        manifests = read_manifests(["-"], io.BytesIO(text.encode()))
        return await self.catalog.plan(manifests, prune, rebind=rebind)

    async def apply(
        self, text: str, prune: Selector | None = None, *, rebind: bool = False
    ) -> Plan:
        """Plans and carries out."""
        plan = await self.plan(text, prune, rebind=rebind)
        return await self.catalog.carry_out(plan, lambda: self.plan(text, prune, rebind=rebind))

    async def export(self, **request: Any) -> str:
        """The catalog as text."""
        return write_documents(await self.catalog.export(ExportRequest(**request)))


MakeWorld = Callable[[], Awaitable[World]]


async def world_at(url: str) -> World:
    """A world on an empty database."""
    await migrate(url)
    return World(create_engine(url))


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    world = await world_at(database_url)
    yield world
    await world.engine.dispose()


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[World]:
    """A world on SQLite, where the database makes no difference."""
    world = await world_at(f"sqlite:///{tmp_path}/local.sqlite3")
    yield world
    await world.engine.dispose()
