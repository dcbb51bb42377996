"""The gateway of this repository, as an operator starts it, with a catalog made over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from benchmarks.processes import BenchmarkError
from benchmarks.stacks import Ask, Stack, free_port
from relay_gateway import __version__

RATES = [
    {"meter": "tokens.input", "amount": "2.5"},
    {"meter": "tokens.cacheRead", "amount": "0.5"},
    {"meter": "tokens.output", "amount": "10"},
]
MAX_CONNECTIONS = 16384
CREDENTIALS = {"BENCH_KEY": "bench-key", "BENCH_THROTTLED": "bench-throttled"}


def make_catalog(admin: httpx.Client, upstream_port: int, scripts: Sequence[str]) -> str:
    """A host and a model for each script; answers the relay key that may use them all."""
    provider = _create(admin, "providers", "Bench")
    pricing = _create(admin, "pricings", "Bench", rates=RATES)
    policy = _create(admin, "policies", "Bench", models=["bench"])
    for script in scripts:
        host = _create(
            admin,
            "hosts",
            f"Bench {script}",
            baseUrl=f"http://127.0.0.1:{upstream_port}/{script}/v1",
            adapter="openai",
            maxConnections=MAX_CONNECTIONS,
        )
        binding = {"hostId": host, "pricingId": pricing}
        name = Ask(script, 0).model
        _create(admin, "models", name, name=name, providerId=provider, bindings=[binding])
        variables = ["BENCH_THROTTLED", "BENCH_KEY"] if script == "throttled" else ["BENCH_KEY"]
        for priority, variable in enumerate(variables):
            _create(
                admin,
                "host-keys",
                f"{script} {variable}",
                hostId=host,
                policyId=policy,
                priority=priority,
                valueFrom={"kind": "env", "env": variable},
            )
    created = _post(admin, "relay-keys", "Bench", policyId=policy, tags={"team": "bench"})
    return str(created["plaintext"])


def _create(admin: httpx.Client, plural: str, display_name: str, **spec: Any) -> str:
    return str(_post(admin, plural, display_name, **spec)["metadata"]["id"])


def _post(admin: httpx.Client, plural: str, display_name: str, **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"displayName": display_name}, "spec": spec}
    answer = admin.post(f"/{plural}", json=body)
    if answer.status_code != 201:
        raise BenchmarkError(f"POST /{plural} was answered {answer.status_code}: {answer.text}")
    created: dict[str, Any] = answer.json()
    return created


def settings(sink: str, directory: Path) -> Path:
    """A ``relay.toml`` in ``directory`` that sends usage records to ``sink``."""
    # In the end all records are counted, which may be more than a reader of files may ask for.
    own = 'read_bytes = "1TiB"' if sink == "file" else ""
    path = directory / "relay.toml"
    path.write_text(f'[usage_logging]\nsinks = ["{sink}"]\n[usage_sinks.{sink}]\n{own}\n', "utf-8")
    return path


class Relay(Stack):
    """``relay-gateway serve`` on SQLite, everything else at its default: relay keys, policy,
    prices, usage records in ``sink``."""

    name = "relay"

    def __init__(self, upstream_port: int, sink: str = "file") -> None:
        super().__init__(upstream_port)
        self._sink = sink
        self._relay_key = ""
        self._control = ""

    def start(self, scripts: Sequence[str]) -> None:
        self.port = free_port()
        self.launch()
        self.wait_until_announced()
        with self._admin() as admin:
            self._relay_key = make_catalog(admin, self.upstream_port, scripts)

    def launch(self) -> None:
        """Starts the process on what its data directory holds."""
        self.run(
            [sys.executable, "-m", "relay_gateway.cli.main", "serve"],
            {
                "RELAY_CONFIG": str(settings(self._sink, self.directory)),
                "RELAY_DATA_DIR": str(self.directory / "data"),
                "RELAY_PORT": str(self.port),
                "RELAY_CONTROL_PORT": "0",
                **CREDENTIALS,
            },
        )

    def wait_until_announced(self) -> None:
        """Waits until both planes answer."""
        if self.child is not None:
            self._control = self.child.wait_for(r"control plane\s+(http://[^/\s]+)")

    def fresh(self) -> Self:
        return type(self)(self.upstream_port, self._sink)

    def version(self) -> str:
        return __version__

    def path(self, ask: Ask) -> str:
        return "/v1/chat/completions"

    def headers(self, ask: Ask) -> Sequence[str]:
        return (f"Authorization: Bearer {self._relay_key}",)

    def recorded(self) -> int:
        """How many requests its usage records tell of."""
        with self._admin() as admin:
            answer = admin.get("/usage/summary").raise_for_status().json()
        return sum(row["requests"] for row in answer["items"])

    def _admin(self) -> httpx.Client:
        token = (self.directory / "data" / "admin-token").read_text("utf-8").strip()
        return httpx.Client(
            base_url=self._control,
            headers={"authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=300,
        )
