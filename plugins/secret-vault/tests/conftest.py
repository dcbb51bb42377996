"""Vaults to test against: the fake, and a real one for each server program on the path."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvac
import hvac.exceptions
import pytest
import requests

from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_vault import VaultConfig, VaultSecrets
from relay_gateway_secret_vault.testing import FakeVault

PROGRAMS = [name for name in ("vault", "bao") if shutil.which(name)]
ROOT = "root-token-of-the-tests"
ANNOUNCED = "Root Token:"


@dataclass(frozen=True, slots=True)
class Peer:
    """A Vault with ``url`` and a root token; what tests put into it has names of their own."""

    url: str
    root: str = ROOT

    @contextmanager
    def client(self, token: str | None = None) -> Iterator[Any]:
        """hvac, logged in as root or with ``token``."""
        with requests.Session() as session:
            session.trust_env = False
            yield hvac.Client(url=self.url, token=token or self.root, session=session)

    def mount(self, name: str, version: int) -> str:
        """Mounts an empty KV engine, whatever was there before."""
        with self.client() as client:
            if f"{name}/" in self._mounted(client):
                client.sys.disable_secrets_engine(name)
            client.sys.enable_secrets_engine("kv", path=name, options={"version": str(version)})
            if version == 2:
                _until_versioned(client, name)
        return name

    def put(self, mount: str, version: int, path: str, **values: Any) -> None:
        """Writes a secret."""
        with self.client() as client:
            engine = client.secrets.kv.v1 if version == 1 else client.secrets.kv.v2
            engine.create_or_update_secret(path, secret=values, mount_point=mount)

    def token(self, *readable: str, **members: Any) -> str:
        """A token that may read the paths."""
        name = f"policy-{abs(hash(readable))}"
        rules = [f'path "{path}" {{ capabilities = ["read"] }}' for path in readable]
        with self.client() as client:
            client.sys.create_or_update_policy(name, "\n".join(rules))
            made = client.auth.token.create(policies=[name], **members)
        return str(made["auth"]["client_token"])

    def _mounted(self, client: Any) -> Any:
        return client.sys.list_mounted_secrets_engines()["data"]


def _until_versioned(client: Any, mount: str) -> None:
    # A real server needs a moment to make a new KV 2, and refuses requests meanwhile.
    for _ in range(100):
        with contextlib.suppress(hvac.exceptions.InvalidRequest):
            client.secrets.kv.v2.read_configuration(mount_point=mount)
            return
        time.sleep(0.05)
    raise AssertionError(f"mount {mount} is not ready after 5 s")


@contextmanager
def development_server(program: str, directory: Path) -> Iterator[str]:
    """A real server in memory, on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    options = [f"-dev-root-token-id={ROOT}", f"-dev-listen-address={address}"]
    command = [program, "server", "-dev", "-dev-no-store-token", *options]
    environ = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, env=environ, text=True, **pipes) as server:  # type: ignore[call-overload]
        try:
            assert any(ANNOUNCED in line for line in server.stdout), f"{program} did not start"
            # It goes on telling what it does, and would stop when nobody listens.
            threading.Thread(target=server.stdout.read).start()
            yield f"http://{address}"
        finally:
            server.terminate()


@pytest.fixture(scope="module", params=["fake", *PROGRAMS])
def peer(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    if request.param == "fake":
        with FakeVault(ROOT) as fake:
            yield Peer(fake.url)
    else:
        with development_server(request.param, tmp_path_factory.mktemp("vault")) as url:
            yield Peer(url)


@pytest.fixture
def fake() -> Iterator[FakeVault]:
    """For what a real server cannot be made to do in a moment."""
    with FakeVault(ROOT) as vault:
        Peer(vault.url).put("secret", 2, "acme", api_key="canary-5f1c9e7d2b")
        yield vault


MakeBackend = Callable[..., VaultSecrets]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeBackend]:
    """Makes backends that are closed after the test."""
    made: list[VaultSecrets] = []

    def backend(address: str, environ: dict[str, str] | None = None, **config: Any) -> VaultSecrets:
        login = {} if "auth" in config or "token_file" in config or environ else {"token": ROOT}
        section = VaultConfig.model_validate({"address": address, **login, **config})
        context = plugin_context(tmp_path, plugin="vault", environ=environ)
        made.append(VaultSecrets(section, context))
        return made[-1]

    yield backend
    for one in made:
        await one.aclose()
        await one.context.aclose()
