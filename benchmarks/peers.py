"""Other gateways, each installed into an environment of its own when it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import BenchmarkError
from benchmarks.stacks import Ask, Stack, free_port, output_of, program

ENVIRONMENTS = Path.home() / ".cache" / "relay-gateway-benchmarks"
_START_SECONDS = 120.0
_LITELLM_KEY = "sk-bench-master"


class Peer(Stack):
    """A gateway that writes answers anew, so that they are not compared byte by byte."""

    exact = False


class LiteLLM(Peer):
    """The proxy with a master key, one worker and no database."""

    name = "litellm"

    def start(self, scripts: Sequence[str]) -> None:
        environment = self._installed()
        self.port = free_port()
        configuration = self.directory / "config.yaml"
        # JSON is YAML.
        configuration.write_text(json.dumps(self._configuration(scripts)), "utf-8")
        self.run(
            [
                environment / "bin" / "litellm",
                "--config",
                configuration,
                "--host",
                "127.0.0.1",
                "--port",
                str(self.port),
            ],
            {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        self.wait_until_it_listens(_START_SECONDS, 0.05)

    def version(self) -> str:
        python = self._installed() / "bin" / "python"
        return output_of(
            python, "-c", "from importlib.metadata import version as v\nprint(v('litellm'))"
        )

    def path(self, ask: Ask) -> str:
        return "/v1/chat/completions"

    def headers(self, ask: Ask) -> Sequence[str]:
        return (f"Authorization: Bearer {_LITELLM_KEY}",)

    def _installed(self) -> Path:
        environment = ENVIRONMENTS / "litellm"
        if not (environment / "bin" / "litellm").exists():
            _run(sys.executable, "-m", "venv", environment)
            _run(environment / "bin" / "pip", "install", "--quiet", "litellm[proxy]")
        return environment

    def _configuration(self, scripts: Sequence[str]) -> dict[str, object]:
        models = [
            {
                "model_name": Ask(script, 0).model,
                "litellm_params": {
                    "model": f"openai/{Ask(script, 0).model}",
                    "api_base": f"http://127.0.0.1:{self.upstream_port}/{script}/v1",
                    "api_key": "bench-key",
                },
            }
            for script in scripts
        ]
        return {"model_list": models, "general_settings": {"master_key": _LITELLM_KEY}}


class Portkey(Peer):
    """The open-source gateway on node; it knows no keys of its own."""

    name = "portkey"

    def start(self, scripts: Sequence[str]) -> None:
        self.port = free_port()
        package = self._installed()
        node = program("node", "on Debian, `apt-get install nodejs npm`")
        entry = package / "build" / "start-server.js"
        self.run(
            [node, entry, f"--port={self.port}", "--headless"],
            {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost", "NODE_ENV": "production"},
        )
        self.wait_until_it_listens(_START_SECONDS, 0.05)

    def version(self) -> str:
        return str(json.loads((self._installed() / "package.json").read_text("utf-8"))["version"])

    def path(self, ask: Ask) -> str:
        return "/v1/chat/completions"

    def headers(self, ask: Ask) -> Sequence[str]:
        return (
            "Authorization: Bearer bench-key",
            "x-portkey-provider: openai",
            f"x-portkey-custom-host: http://127.0.0.1:{self.upstream_port}/{ask.script}/v1",
        )

    def _installed(self) -> Path:
        environment = ENVIRONMENTS / "portkey"
        package = environment / "node_modules" / "@portkey-ai" / "gateway"
        if not package.exists():
            environment.mkdir(parents=True, exist_ok=True)
            npm = program("npm", "on Debian, `apt-get install nodejs npm`")
            _run(npm, "install", "--silent", "--prefix", environment, "@portkey-ai/gateway")
        return package


PEERS: tuple[type[Peer], ...] = (LiteLLM, Portkey)


def _run(*arguments: str | Path) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")
