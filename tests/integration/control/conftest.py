"""A control plane over a migrated catalog, with plugins that keep everything in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import httpx
import pytest
from pydantic import Field, SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.control import (
    ControlServices,
    PluginEntry,
    Readiness,
    ReloadReport,
)
from relay_gateway.errors import SecretRefError
from relay_gateway.http.client import HttpClient
from relay_gateway.observe import families
from relay_gateway.observe.series import Series, series_of
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.explain import Explainer
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.probe import HostProber
from relay_gateway.plugin import (
    AdapterConfig,
    LogPage,
    LogQuery,
    PluginConfig,
    RowBinding,
    SecretBackend,
    SecretRef,
    SeriesQuery,
    SystemClock,
    UpstreamProvider,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
)
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.secret import Secret
from relay_gateway.storage import (
    AuditLog,
    CatalogStore,
    InstanceStore,
    LoginFailures,
    MasterKeyStore,
    RelayKeyUses,
    SessionStore,
    SettingsStore,
    SpendingStore,
)
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.databases import migrated

from .documented import ADMIN, ADMIN_TOKEN, Op, client_of


class VariableRef(SecretRef):
    kind: Literal["variable"] = "variable"
    variable: str = Field(min_length=1)


class VariableSecrets(SecretBackend[PluginConfig]):
    name: ClassVar[str] = "variable"
    Ref = VariableRef

    def check(self, ref: SecretRef) -> None:
        assert isinstance(ref, VariableRef)
        if ref.variable.startswith("RELAY_"):
            raise SecretRefError("must not be one of the gateway's own", field="variable")


class BoxRef(SecretRef):
    kind: Literal["box"] = "box"
    value: SecretStr | None = None
    label: str | None = None


class BoxedRef(SecretRef):
    kind: Literal["box"] = "box"
    ciphertext: str
    label: str


class ShownRef(SecretRef):
    kind: Literal["box"] = "box"
    label: str


class BoxSecrets(SecretBackend[PluginConfig]):
    """Keeps values reversed, with the place they belong to: enough to see what was bound to
    what."""

    name: ClassVar[str] = "box"
    Ref = BoxRef
    StoredRef = BoxedRef
    PublicRef = ShownRef
    broken = False

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        assert isinstance(ref, BoxRef)
        if self.broken:
            assert ref.value is not None
            raise KeyError(ref.value.get_secret_value())
        if ref.value is None:
            if isinstance(previous, BoxedRef):
                return previous
            raise SecretRefError("a value is needed", field="value")
        place = f"{binding.kind}/{binding.id}/{binding.field}/{binding.generation}"
        return BoxedRef(ciphertext=f"{ref.value.get_secret_value()[::-1]}@{place}", label="kept")

    def publish(self, stored: SecretRef) -> SecretRef:
        assert isinstance(stored, BoxedRef)
        return ShownRef(label=stored.label)


class EchoConfig(AdapterConfig):
    latency_ms: int = 0
    region: Literal["eu", "us"] = "eu"


class EchoProvider(UpstreamProvider[PluginConfig]):
    name: ClassVar[str] = "echoes"
    wire_formats: ClassVar[tuple[str, ...]] = ("acme.chat", "acme.embeddings")
    HostConfig = EchoConfig


class PlainProvider(UpstreamProvider[PluginConfig]):
    name: ClassVar[str] = "plain"
    wire_formats: ClassVar[tuple[str, ...]] = ("plain.chat",)


class MemoryReader(UsageReader):
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self, records: Sequence[UsageRecord] = ()) -> None:
        self.records = {record.request_id: record for record in records}
        self.queries: list[LogQuery] = []
        self.summaries: list[UsageQuery] = []

    async def get(self, request_id: str) -> UsageRecord | None:
        return self.records.get(request_id)

    async def query(self, query: LogQuery) -> LogPage:
        self.queries.append(query)
        if query.cursor == "bad":
            raise ValueError("the cursor is not one of this reader's")
        # An export follows the cursor to the end, which is the second page.
        following = "more" if query.cursor in (None, "c") else None
        return LogPage(items=tuple(self.records.values()), next_cursor=following)

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        self.summaries.append(query)
        row = UsageRow(
            group={"model": "m"},
            requests=1,
            errors=0,
            tokens={"input": 3},
            cost_nanos={"USD": 5},
            unpriced=0,
            duration_ms={"avg": 1.5},
            ttft_ms={"avg": None},
        )
        return [row]

    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        rows = await self.summarize(query)
        return [
            UsagePoint(start=f"2026-01-01T0{hour}:00:00Z", row=row)
            for hour in (1, 2)
            for row in rows
        ]


@dataclass(frozen=True)
class Installed:
    name: str
    kind: str
    distribution: str = "relay-gateway-x"
    version: str = "1.2"
    state: str = "open"
    error: str | None = None
    config_schema: dict[str, Any] | None = None
    config: dict[str, Any] | None = None


@dataclass
class Surroundings:
    """What the tests turn: everything the control plane sees besides its store."""

    refreshes: int = 0
    refresh_error: Exception | None = None
    readiness: Readiness = field(default_factory=lambda: Readiness(snapshot_loaded=True))
    resets: list[str] = field(default_factory=list)
    reader: MemoryReader = field(default_factory=MemoryReader)
    box: BoxSecrets = field(
        default_factory=lambda: BoxSecrets(PluginConfig(), plugin_context(Path()))
    )

    async def refresh(self) -> ReloadReport:
        self.refreshes += 1
        if self.refresh_error is not None:
            raise self.refresh_error
        return ReloadReport(revision=self.refreshes, entities=7, duration_ms=1.25)

    async def metrics(self) -> Sequence[Series]:
        return [series_of(families.BUILD, 1, "9.8.7")]

    async def statuses(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return {one: {"state": "benched" if one not in self.resets else "ready"} for one in ids}

    async def reset(self, key_id: str) -> None:
        self.resets.append(key_id)

    async def host_statuses(self, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        return {one: {"state": "ejected" if one not in self.resets else "available"} for one in ids}


def inventory() -> Sequence[PluginEntry]:
    broken = Installed("bad", "secret backend", state="quarantined", error="cannot be imported")
    return [Installed("echoes", "upstream provider"), broken]


@pytest.fixture
def surroundings() -> Surroundings:
    return Surroundings()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    async with migrated(f"sqlite:///{tmp_path}/catalog.sqlite3") as engine:
        yield engine


@pytest.fixture
def store(engine: AsyncEngine) -> CatalogStore:
    return CatalogStore(engine)


@pytest.fixture
def services(
    engine: AsyncEngine, store: CatalogStore, surroundings: Surroundings, tmp_path: Path
) -> ControlServices:
    context = plugin_context(tmp_path)
    pools, credentials = KeyPools(SystemClock()), Credentials({}, SystemClock())
    return ControlServices(
        store=store,
        sessions=SessionStore(engine),
        settings=SettingsStore(engine),
        audit=AuditLog(engine),
        relay_key_uses=RelayKeyUses(engine),
        login_failures=LoginFailures(engine),
        master_keys=MasterKeyStore(engine),
        spending=SpendingStore(engine),
        instances=InstanceStore(engine),
        secret_backends={
            "variable": VariableSecrets(PluginConfig(), context),
            "box": surroundings.box,
        },
        providers={
            "echoes": EchoProvider(PluginConfig(), context),
            "plain": PlainProvider(PluginConfig(), context),
        },
        usage_reader=surroundings.reader,
        plugins=inventory,
        refresh=surroundings.refresh,
        reload=surroundings.refresh,
        readiness=lambda: surroundings.readiness,
        host_key_statuses=surroundings.statuses,
        reset_host_key=surroundings.reset,
        host_statuses=surroundings.host_statuses,
        reset_host=surroundings.reset,
        admin_token=Secret(ADMIN_TOKEN),
        version="9.8.7",
        metrics=surroundings.metrics,
        live=LiveCatalog(),
        endpoints=[ServedEndpoint(one, PlainFormat()) for one in PlainFormat.endpoints],
        explainer=Explainer(pools, credentials),
        prober=HostProber({}, HttpClient(), credentials),
        commit="abc123",
    )


@pytest.fixture
async def anonymous(services: ControlServices) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(services) as client:
        yield client


@pytest.fixture
def admin(anonymous: httpx.AsyncClient) -> httpx.AsyncClient:
    anonymous.headers.update(ADMIN)
    return anonymous


@pytest.fixture
async def document(services: ControlServices) -> dict[str, Any]:
    async with client_of(services, **ADMIN) as client:
        found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


@pytest.fixture
def ops(document: dict[str, Any]) -> list[Op]:
    return [
        Op(path, method, raw)
        for path, item in document["paths"].items()
        for method, raw in item.items()
    ]


class Catalog:
    """Creates entities through the API, with the least that each kind needs."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def add(self, plural: str, name: str = "Acme", **spec: Any) -> dict[str, Any]:
        body = {"metadata": {"displayName": name}, "spec": spec}
        answer = await self.client.post(f"/{plural}", json=body)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def host(self, **spec: Any) -> str:
        fields = {"baseUrl": "http://127.0.0.1:9", "adapter": "echoes", **spec}
        return str((await self.add("hosts", **fields))["metadata"]["id"])

    async def policy(self, **spec: Any) -> str:
        return str((await self.add("policies", **spec))["metadata"]["id"])

    async def host_key(self, **value_from: Any) -> dict[str, Any]:
        host, policy = await self.host(), await self.policy()
        return await self.add("host-keys", hostId=host, policyId=policy, valueFrom=value_from)

    async def relay_key(self, **spec: Any) -> dict[str, Any]:
        return await self.add("relay-keys", policyId=await self.policy(), **spec)


@pytest.fixture
def catalog(admin: httpx.AsyncClient) -> Catalog:
    return Catalog(admin)


def fields_of(answer: httpx.Response) -> dict[str, str]:
    """Offending fields and their codes; the answer must be a 422 in the envelope."""
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert error["code"] == "invalid_entity"
    return {item["field"]: item["code"] for item in error["fields"]}


@pytest.fixture
def problem_fields() -> Any:
    return fields_of
