"""The control plane's application: every route, behind one guard."""

from __future__ import annotations

from fastapi import Depends, FastAPI

from relay_gateway.catalog.kinds import KINDS
from relay_gateway.control.application import ControlApplication
from relay_gateway.control.audit import STRUCTS as AUDIT_STRUCTS
from relay_gateway.control.audit import AuditRoutes
from relay_gateway.control.authenticate import Authenticator
from relay_gateway.control.budgets import STRUCTS as BUDGET_STRUCTS
from relay_gateway.control.budgets import BudgetRoutes
from relay_gateway.control.crud import EntityRoutes
from relay_gateway.control.declared_access import check_declared_access
from relay_gateway.control.guard import Guard, public_paths
from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.host_state import HostStateRoutes
from relay_gateway.control.host_test import HostTestRoutes
from relay_gateway.control.hosts import HostRules, ModelRules
from relay_gateway.control.inference import InferenceRoutes
from relay_gateway.control.instances import STRUCTS as INSTANCE_STRUCTS
from relay_gateway.control.instances import InstanceRoutes
from relay_gateway.control.key_routes import HostKeyRoutes, RelayKeyRoutes
from relay_gateway.control.logs import STRUCTS, LogRoutes
from relay_gateway.control.master_key_routes import STRUCTS as MASTER_KEY_STRUCTS
from relay_gateway.control.master_key_routes import MasterKeyRoutes
from relay_gateway.control.metrics import MetricsRoutes
from relay_gateway.control.openapi import Documentation
from relay_gateway.control.operations import OperationRoutes
from relay_gateway.control.parameters import refuse_unknown_parameters
from relay_gateway.control.plugins import STRUCTS as PLUGIN_STRUCTS
from relay_gateway.control.plugins import PluginRoutes
from relay_gateway.control.problems import install_error_answers
from relay_gateway.control.relay_keys import KIND as RELAY_KEY
from relay_gateway.control.relay_keys import RelayKeyRules
from relay_gateway.control.resolve import STRUCTS as RESOLVE_STRUCTS
from relay_gateway.control.resolve import ResolveRoutes
from relay_gateway.control.rules import KindRules
from relay_gateway.control.services import ControlServices
from relay_gateway.control.session_routes import SessionRoutes
from relay_gateway.control.sessions import Sessions
from relay_gateway.control.settings import SettingsRoutes
from relay_gateway.control.usage import STRUCTS as USAGE_STRUCTS
from relay_gateway.control.usage import UsageRoutes


def create_control_app(services: ControlServices) -> FastAPI:
    """An ASGI application that serves the control plane with ``services``.

    It owns nothing: whoever built the services opens and closes store, plugins and snapshot.
    """
    app = ControlApplication(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    structs = (
        *STRUCTS,
        *USAGE_STRUCTS,
        *BUDGET_STRUCTS,
        *AUDIT_STRUCTS,
        *MASTER_KEY_STRUCTS,
        *RESOLVE_STRUCTS,
        *PLUGIN_STRUCTS,
        *INSTANCE_STRUCTS,
    )
    docs = Documentation(services.version, structs, header_prefix=services.access.header_prefix)
    sessions = Sessions(services)
    OperationRoutes(services, docs, app).add_to(app)
    PluginRoutes(services, docs).add_to(app)
    InstanceRoutes(services, docs).add_to(app)
    MasterKeyRoutes(services, docs).add_to(app)
    SessionRoutes(services, docs, sessions).add_to(app)
    SettingsRoutes(services, docs).add_to(app)
    AuditRoutes(services.audit, docs, services.is_signed).add_to(app)
    LogRoutes(services, docs).add_to(app)
    UsageRoutes(services, docs).add_to(app)
    BudgetRoutes(services, docs).add_to(app)
    ResolveRoutes(services, docs).add_to(app)
    HostTestRoutes(services, docs).add_to(app)
    HostStateRoutes(services, docs).add_to(app)
    InferenceRoutes(services, docs).add_to(app)
    MetricsRoutes(services, docs).add_to(app)
    _include_entities(app, services, docs)
    check_declared_access(app, public_paths(services.access))
    install_error_answers(app)
    authenticator = Authenticator(services, sessions)
    app.add_middleware(Guard, authenticator=authenticator, access=services.access)
    return app


def _include_entities(app: FastAPI, services: ControlServices, docs: Documentation) -> None:
    host_keys = HostKeyRules(services.secret_backends, services.host_key_statuses)
    hosts = HostRules(
        services.store, services.providers, services.secret_backends, services.host_statuses
    )
    own: dict[str, KindRules] = {
        "host": hosts,
        "model": ModelRules(services.store, services.providers),
        "host key": host_keys,
        RELAY_KEY: RelayKeyRules(services.relay_key_uses),
    }
    for name, kind in KINDS.items():
        rules = own.get(name) or KindRules(kind)
        routes = EntityRoutes(services, docs, rules, creates=name != RELAY_KEY)
        routes.add_to(app)
        if name == RELAY_KEY:
            RelayKeyRoutes(services, docs, routes).add_to(app)
        if name == "host key":
            HostKeyRoutes(services, docs, routes, host_keys).add_to(app)
