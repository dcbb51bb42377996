"""Builds the parts of a gateway from its settings, and joins them; nothing is opened yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.budgets import Spending
from relay_gateway.catalog.build import SnapshotBuilder
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.delivery.budget_ledger import BudgetLedger
from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.last_uses import LastUses
from relay_gateway.http.addresses import AddressReader
from relay_gateway.http.client import HttpClient
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import HeaderReader
from relay_gateway.limits.limiter import Limiter
from relay_gateway.observe.requests import RequestMetrics
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.announce import Ledger
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.capture import Payloads
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.guarding_proxy import GuardedProxy
from relay_gateway.pipeline.guarding_run import GuardedPipeline
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.proxied_head import HeadSieve
from relay_gateway.pipeline.proxy_logins import ProxyLogins
from relay_gateway.pipeline.settle import Deliver
from relay_gateway.pipeline.translate import Translator
from relay_gateway.pipeline.wording import Wire
from relay_gateway.plugin import SystemClock, UsageRecord
from relay_gateway.registry import PluginKind, Plugins
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.heartbeat import Member
from relay_gateway.server.last_good import LastGoodFile
from relay_gateway.server.record_sinks import RecordSinks
from relay_gateway.server.watch import CatalogWatcher, Upkeep
from relay_gateway.settings import Settings
from relay_gateway.storage import (
    CatalogStore,
    RelayKeyUses,
    SpendingStore,
)
from relay_gateway.storage.changes import CatalogChanges

SQLITE_POLL = 0.2
POSTGRESQL_POLL = 1.0


def assemble(
    settings: Settings,
    plugins: Plugins,
    engine: AsyncEngine,
    limiter: Limiter,
    preparation: Callable[[], Awaitable[None]],
    environ: Mapping[str, str],
    member: Member,
) -> Gateway:
    """All parts of the process ``member``, joined. ``preparation`` brings the database to this
    version when it could not be asked before."""
    clock = SystemClock()
    live = LiveCatalog()
    pools = KeyPools(clock)
    report_backend = partial(plugins.report, PluginKind.SECRET_BACKEND)
    logins = ProxyLogins(plugins.secret_backends, clock, report_backend)
    client = HttpClient(egress_deny=settings.egress_deny, logins=logins)
    credentials = Credentials(plugins.secret_backends, clock, report=report_backend)
    report = partial(plugins.report, PluginKind.UPSTREAM_PROVIDER)
    sinks = RecordSinks(settings, plugins)
    delivery = sinks.delivery
    payloads = Payloads(delivery.put_payload, settings.payload_memory_bytes)
    translator = Translator(plugins.wire_formats, plugins.providers_in_use)
    spending = Spending()
    budgets = BudgetGate(spending)
    admission = Admission(limiter, budgets)
    dispatcher = Dispatcher(
        plugins.providers_in_use,
        client,
        credentials,
        pools,
        report,
        translator,
        ledger=delivery,
        admission=admission,
    )
    upkeep = Upkeep(
        interval=POSTGRESQL_POLL if settings.database_file is None else SQLITE_POLL,
        max_age=settings.max_snapshot_age,
        prepare=preparation,
        swapped=partial(_swapped, dispatcher, sinks),
    )
    last_uses = LastUses(RelayKeyUses(engine))
    requests = RequestMetrics(live)
    deliver = _deliverer(delivery, last_uses, requests)
    return Gateway(
        settings=settings,
        plugins=plugins,
        engine=engine,
        store=CatalogStore(engine),
        live=live,
        watcher=CatalogWatcher(
            CatalogChanges(engine),
            live,
            SnapshotBuilder(plugins.providers, plugins.secret_backends),
            LastGoodFile(settings.data_dir, settings.master_key),
            upkeep,
        ),
        pools=pools,
        credentials=credentials,
        health=dispatcher.health,
        dispatcher=dispatcher,
        translator=translator,
        logins=logins,
        client=client,
        sinks=sinks,
        payloads=payloads,
        last_uses=last_uses,
        ledger=BudgetLedger(SpendingStore(engine), spending, _utc_now, partial(_has_budgets, live)),
        plane=_plane(
            settings,
            plugins,
            live,
            client,
            dispatcher,
            translator,
            deliver,
            delivery,
            admission,
            payloads,
        ),
        limiter=limiter,
        budgets=budgets,
        requests=requests,
        environ=environ,
        member=member,
    )


def _plane(
    settings: Settings,
    plugins: Plugins,
    live: LiveCatalog,
    client: HttpClient,
    dispatcher: Dispatcher,
    translator: Translator,
    deliver: Deliver,
    ledger: Ledger,
    admission: Admission,
    payloads: Payloads,
) -> InferencePlane:
    answers = AnswerWriter(settings.header_prefixes[0], plugins.providers_in_use)
    authenticator = Authenticator(settings.header_prefixes)
    pipeline = GuardedPipeline(
        live,
        authenticator,
        dispatcher,
        deliver,
        Wire(answers.answer_headers, answers.refuse, answers.retell),
        settings.max_request_bytes,
        translator.speech_for,
        payloads=payloads,
    )
    return InferencePlane(
        live,
        pipeline,
        authenticator,
        answers,
        HeaderReader(settings.header_prefixes),
        AddressReader(settings.trusted_proxies),
        plugins.endpoints,
        tuple(plugins.dialects.values()),
        GuardedProxy(
            client,
            plugins.providers_in_use,
            authenticator,
            HeadSieve(settings.header_prefixes),
            deliver,
            answers.gateway,
            ledger=ledger,
            admission=admission,
            payloads=payloads,
            breakers=dispatcher.breakers,
        ),
    )


def _swapped(dispatcher: Dispatcher, sinks: RecordSinks, snapshot: Snapshot) -> None:
    dispatcher.retain(snapshot)
    sinks.follow(snapshot)


def _has_budgets(live: LiveCatalog) -> bool:
    return live.loaded and any(policy.budgets for policy in live.current.policies.values())


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _deliverer(delivery: Delivery, last_uses: LastUses, requests: RequestMetrics) -> Deliver:
    def deliver(record: UsageRecord) -> None:
        delivery.put(record)
        requests.observe(record)
        last_uses.note(record)

    return deliver
