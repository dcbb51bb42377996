"""Holds a control plane to its own OpenAPI document, by thousands of requests made from that.

``python -m relay_gateway.testing.contract URL PHASES EXAMPLES SEED`` opens a gateway on a database,
runs the phases of schemathesis on it without sockets, and prints a :class:`Verdict` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import schemathesis
from schemathesis import Case, CheckContext, Response
from schemathesis.core.failures import Failure
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.specs.openapi.checks import positive_data_acceptance

from relay_gateway.control import create_control_app
from relay_gateway.registry import Registry
from relay_gateway.testing.instances import ADMIN_TOKEN, Instances

PHASES = ("examples", "coverage", "fuzzing", "stateful")
ORIGIN = "http://127.0.0.1"
HEADERS = {"Host": "127.0.0.1", "Authorization": f"Bearer {ADMIN_TOKEN}"}
CALLS_OUT = "testHost"
"""The operation that calls somebody; it is only tried on a port where nobody listens."""

_EXCUSES = {
    (400, "invalid_parameter"): re.compile("cursor:? |since and from |.* lies outside the years "),
    (400, "invalid_json"): re.compile(".* contains a NUL character", re.DOTALL),
    (412, "version_conflict"): re.compile(""),
    (422, "idempotency_key_reused"): re.compile(""),
}
"""What the schemas do not say of a request: a cursor is a page's, two parameters exclude each
other, another request came before."""
_FIELD_EXCUSES = frozenset(
    {
        "credential_header",
        "decimal_max_digits",
        "decimal_max_places",
        "decimal_whole_digits",
        "duplicate_name",
        "header_name_invalid",
        "name_taken",
        "proxy_url_required",
        "read_only",
        "redaction_rule_invalid",
        "reference_not_found",
        "revoked",
        "secret_ref_invalid",
        "sink_unavailable",
        "slug_taken",
        "unknown_wire_format",
    }
)
"""What the schemas do not say of a field: it depends on others, on what is stored, or counts
digits."""
_NO_ERRORS = ("2xx", "3xx", "4xx", "501")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(slots=True)
class Verdict:
    """What a run found. ``failures`` maps what is wrong, with its operation, to an example;
    ``untried`` are operations that were never called."""

    calls: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)

    def note(self, recorder: ScenarioRecorder) -> None:
        """Counts the calls of one scenario and keeps its failures."""
        for case_id, interaction in recorder.interactions.items():
            self.calls += 1
            label = recorder.cases[case_id].value.operation.label
            if label in self.untried:
                self.untried.remove(label)
            if interaction.response is not None:
                status = str(interaction.response.status_code)
                self.statuses[status] = self.statuses.get(status, 0) + 1
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    case = recorder.cases[case_id].value
                    name = f"{check.name}: {case.operation.label}"
                    told = _told(recorder, case_id, check.failure_info.failure)
                    self.failures.setdefault(name, told)


class GatewayApp:
    """A control plane as an ASGI application that opens its gateway when it starts."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self._directory = directory
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            scope["client"] = ("127.0.0.1", 9)
            await self._app(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        instances = Instances(self._directory, Registry.discover())
        gateway = await instances.open(self._url, usage_logging={"sinks": ("database",)})
        self._app = create_control_app(gateway.control_services())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await instances.close()
        await send({"type": "lifespan.shutdown.complete"})


async def judge_apart(url: str, phases: Sequence[str], examples: int, seed: int) -> Verdict:
    """As :func:`judge`, in a process of its own."""
    arguments = (url, ",".join(phases), str(examples), str(seed))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "relay_gateway.testing.contract",
        *arguments,
        stdout=PIPE,
    )
    try:
        told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, "the run ended with an error; see above"
    return Verdict(**json.loads(told))


def judge(url: str, phases: Sequence[str], examples: int, seed: int) -> Verdict:
    """Runs ``phases`` with up to ``examples`` requests per operation on the database at ``url``."""
    with tempfile.TemporaryDirectory() as directory:
        app = GatewayApp(url, Path(directory))
        schema: Any = schemathesis.openapi.from_asgi(
            "/openapi.json", app, config=_config(phases, examples, seed), headers=HEADERS
        )
        if "stateful" in phases:
            # Sequences make hosts of all addresses, and a test would call them.
            schema = schema.exclude(operation_id=CALLS_OUT)
        with _known_references(app):
            return _judged(schema)


def _judged(schema: Any) -> Verdict:
    verdict, began = Verdict(untried=_labels(schema)), time.monotonic()
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            verdict.note(event.recorder)
        elif isinstance(event, events.NonFatalError):
            verdict.failures[f"error: {event.label}"] = str(event.value)
        elif isinstance(event, events.FatalError):
            raise event.exception
    verdict.seconds = time.monotonic() - began
    return verdict


def _labels(schema: Any) -> list[str]:
    return [operation.ok().label for operation in schema.get_all_operations()]


def _config(phases: Sequence[str], examples: int, seed: int) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "base-url": ORIGIN,
            "headers": {"Authorization": HEADERS["Authorization"]},
            "continue-on-failure": True,
            "generation": {"max-examples": examples, "database": "none"},
            "phases": {name: {"enabled": name in phases} for name in PHASES},
            "checks": {
                "positive_data_acceptance": {"enabled": False},
                # Where 501 is documented it is expected, and elsewhere it is not in the document.
                "not_a_server_error": {"expected-statuses": [*_NO_ERRORS]},
            },
            # There is no inference plane here, which is what this one then answers.
            "operations": [
                {
                    "include-path": "/inference/try",
                    "checks": {"not_a_server_error": {"expected-statuses": [*_NO_ERRORS, "503"]}},
                }
            ],
        }
    )


@schemathesis.check
def valid_data_acceptance(ctx: CheckContext, response: Response, case: Case[Any]) -> None:
    """What the document allows is accepted, or refused for what no schema can say."""
    try:
        positive_data_acceptance(ctx, response, case)
    except Failure:
        if not excused(response.status_code, response.json()["error"]):
            raise


def excused(status: int, error: dict[str, Any]) -> bool:
    """Whether a request that follows the schema may be refused with this."""
    codes = {item["code"] for item in error.get("fields", ())}
    if status == 422 and codes and codes <= _FIELD_EXCUSES:
        return True
    pattern = _EXCUSES.get((status, error["code"]))
    return pattern is not None and pattern.match(error["message"]) is not None


@contextmanager
def _known_references(app: GatewayApp) -> Iterator[None]:
    """Lets ids that bodies refer to be those of entities that there are."""
    known = _made(app)

    def before_call(_context: Any, case: Case[Any], _arguments: Any) -> None:
        case.body = _pointed(case.body, known)
        if case.operation.definition.raw["operationId"] == CALLS_OUT:
            case.path_parameters["id"] = known["hostId"]

    schemathesis.hook(before_call)
    try:
        yield
    finally:
        schemathesis.hooks.unregister(before_call)


def _made(app: GatewayApp) -> dict[str, str]:
    """One entity of each kind that others refer to: the names of such fields and its id."""
    from schemathesis.python.asgi import get_client

    with get_client(app) as client:

        def make(plural: str, **spec: Any) -> str:
            body = {"metadata": {"displayName": f"known {plural}"}, "spec": spec}
            answer = client.post(f"{ORIGIN}/{plural}", json=body, headers=HEADERS)
            assert answer.status_code == 201, answer.text
            return cast("str", answer.json()["metadata"]["id"])

        host = make("hosts", baseUrl="http://127.0.0.1:9", adapter="echo")
        policy = make("policies", models=["*"])
        provider = make("providers")
        rate = {"meter": "tokens.input", "amount": "0.15"}
        rule = {"meter": "requests", "amount": 5, "windowSeconds": 60}
        value = {"kind": "env", "env": "SOME_KEY"}
        return {
            "hostId": host,
            "policyId": policy,
            "providerId": provider,
            "pricingId": make("pricings", rates=[rate]),
            "rateLimitId": make("rate-limits", rules=[rule]),
            "rateLimitIds": make("rate-limits", rules=[rule]),
            "fallbacks": make("models", providerId=provider),
            "hostKeyIds": make("host-keys", hostId=host, policyId=policy, valueFrom=value),
        }


def _pointed(value: Any, known: dict[str, str], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _pointed(item, known, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_pointed(item, known, name) for item in value]
    if isinstance(value, str) and name in known and _UUID.fullmatch(value):
        return known[name]
    return value


def _told(recorder: ScenarioRecorder, case_id: str, failure: Failure) -> str:
    interaction = recorder.interactions[case_id]
    request, response = interaction.request, interaction.response
    answer = (
        f"{response.status_code} {response.content[:600]!r}" if response is not None else "none"
    )
    body = request.body[:600] if request.body else b""
    return f"{failure.title}: {failure.message}\n{request.method} {request.uri}\n{body!r}\n{answer}"


def main(url: str, phases: str, examples: str, seed: str) -> None:
    """Prints the verdict of one run."""
    logging.disable(logging.CRITICAL)
    print(json.dumps(asdict(judge(url, phases.split(","), int(examples), int(seed)))))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
