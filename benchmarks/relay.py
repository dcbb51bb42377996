"""The gateway of this repository, as an operator starts it, with a catalog made over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import httpx

from benchmarks.stacks import Ask, Stack, free_port
from relay_gateway import __version__

RATES = [
    {"meter": "tokens.input", "amount": "2.5"},
    {"meter": "tokens.cacheRead", "amount": "0.5"},
    {"meter": "tokens.output", "amount": "10"},
]
MAX_CONNECTIONS = 16384
CREDENTIALS = {"BENCH_KEY": "bench-key", "BENCH_THROTTLED": "bench-throttled"}


class Relay(Stack):
    """``relay-gateway serve`` on SQLite, everything at its default: relay keys, policy, prices,
    usage records in the database."""

    name = "relay"

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self._relay_key = ""
        self._control = ""

    def start(self, scripts: Sequence[str]) -> None:
        self.port = free_port()
        self.launch()
        with self._admin() as admin:
            _Catalog(admin, self.upstream_port).make(scripts)
            self._relay_key = _Catalog(admin, self.upstream_port).relay_key()

    def launch(self) -> None:
        """Starts the process on what its data directory holds; returns when it is announced."""
        child = self.run(
            [sys.executable, "-m", "relay_gateway.cli.main", "serve"],
            {
                "RELAY_DATA_DIR": str(self.directory / "data"),
                "RELAY_PORT": str(self.port),
                "RELAY_CONTROL_PORT": "0",
                **{key: value for key, value in os.environ.items() if key.startswith("RELAY_BENCH")},
                **CREDENTIALS,
            },
        )
        self._control = child.wait_for(r"control plane\s+(http://[^/\s]+)")

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
            timeout=60,
        )
