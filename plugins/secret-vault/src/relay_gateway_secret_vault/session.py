"""A session with Vault: logged in when need be, renewed before the token ends. All of it blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from relay_gateway.errors import SecretUnavailableError
from relay_gateway.plugin import PluginContext
from relay_gateway_secret_vault.login import Login, document, lease_of, log_in, member
from relay_gateway_secret_vault.models import VaultConfig, VaultRef
from relay_gateway_secret_vault.refusals import LOGIN, Refusal, refusal

T = TypeVar("T")
TOKEN_VARIABLE = "VAULT_TOKEN"  # noqa: S105 - a name
PATIENCE = 4.0
"""Seconds to wait for another thread's login; about as long as anybody waits for a secret."""
RENEW_AFTER = 2 / 3
"""Part of a token's life after which it is renewed."""
SHORTENED = 1 / 2
"""A renewal that gives less than this part of the first lease: the end of the token is near."""
PAUSE, LONGEST_PAUSE = 0.5, 3600.0


class Session:
    """One ``hvac.Client`` and its token; threads may share it."""

    def __init__(self, config: VaultConfig, context: PluginContext) -> None:
        self._config = config
        self._context = context
        self._lock = threading.Lock()
        self._client: Any = None
        self._login: Login | None = None
        self._renew_at: float | None = None
        self._ends_at: float | None = None
        self._versions: dict[str, int] = {}

    def open(self) -> None:
        """Loads hvac and logs in. Raises :class:`SecretError`."""
        with self._turn():
            if self._client is None:
                self._client = _client(self._config)
        self._log_in(None)

    def close(self) -> None:
        """Closes the connections and forgets the token; never waits."""
        client, self._client = self._client, None
        self._login = None
        if client is not None:
            client.token = None
            client.adapter.close()

    @property
    def pause(self) -> float:
        """Seconds until :meth:`keep_alive` has something to do."""
        if self._login is None:
            return PAUSE
        if self._renew_at is None:
            return LONGEST_PAUSE
        return min(max(self._renew_at - self._now(), PAUSE), LONGEST_PAUSE)

    def keep_alive(self) -> None:
        """Renews the token if its time has come, or logs in anew. Raises :class:`SecretError`."""
        login = self._login
        if login is not None and (self._renew_at is None or self._now() < self._renew_at):
            return
        if login is None or not login.lease.renewable or not self._renew(login):
            self._log_in(login)

    def read(self, ref: VaultRef) -> tuple[int, Mapping[str, Any]]:
        """The version of the engine, and Vault's answer. Raises :class:`SecretError`."""
        login = self._login
        if login is None or (self._ends_at is not None and self._now() >= self._ends_at):
            login = self._log_in(login)
        answer = self._attempt(lambda: self._read(ref), ref.place)
        if isinstance(answer, Refusal) and answer.refused and self._is_spent(login):
            self._log_in(login)
            answer = self._attempt(lambda: self._read(ref), ref.place)
        if isinstance(answer, Refusal):
            # An engine can be replaced by one of another version.
            self._versions.clear()
        return _or_raise(answer)

    def _read(self, ref: VaultRef) -> tuple[int, Mapping[str, Any]]:
        client, mount = self._opened(), ref.mount or self._config.mounts[0]
        version = self._config.kv_version or self._versions.get(mount)
        if version is None:
            version = self._versions[mount] = self._ask_version(client, mount)
        if version == 1:
            return 1, document(client.secrets.kv.v1.read_secret(ref.path, mount_point=mount))
        answer = client.secrets.kv.v2.read_secret_version(
            ref.path, version=ref.version, mount_point=mount, raise_on_deleted_version=True
        )
        return 2, document(answer)

    def _ask_version(self, client: Any, mount: str) -> int:
        """2 for a versioned KV engine; everything else is read in the manner of version 1."""
        answer = document(client.adapter.get(f"/v1/sys/internal/ui/mounts/{mount}"))
        options = member(member(answer, "data"), "options")
        return 2 if options.get("version") == "2" else 1

    def _log_in(self, spent: Login | None) -> Login:
        """A login that is not ``spent``; of several threads one logs in, others wait."""
        with self._turn():
            if self._login is not None and self._login is not spent:
                return self._login
            variable = self._context.environ(TOKEN_VARIABLE)
            client, hide = self._opened(), self._context.hide
            login = _or_raise(
                self._attempt(lambda: log_in(client, self._config, variable, hide), LOGIN)
            )
            client.token = login.token.reveal()
            if variable and login.token.matches(variable):
                self._context.withdraw(TOKEN_VARIABLE)
            self._login = login
            self._plan(login.lease.seconds)
            return login

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=PATIENCE):
            raise SecretUnavailableError("the login to Vault is still under way")
        try:
            yield
        finally:
            self._lock.release()

    def _renew(self, login: Login) -> bool:
        """Whether the token was renewed for long enough."""
        client = self._opened()
        answer = self._attempt(lambda: document(client.auth.token.renew_self()), "the renewal")
        if isinstance(answer, Refusal):
            return False
        lease = lease_of(member(answer, "auth"))
        if lease.seconds < login.lease.seconds * SHORTENED:
            return False
        self._plan(lease.seconds)
        return True

    def _is_spent(self, login: Login) -> bool:
        """Whether the token itself is what Vault refuses, or was replaced by another thread."""
        client = self._opened()
        found = self._attempt(lambda: document(client.auth.token.lookup_self()), "the token")
        return (isinstance(found, Refusal) and found.refused) or self._login is not login

    def _plan(self, seconds: float) -> None:
        now = self._now()
        self._renew_at = now + seconds * RENEW_AFTER if seconds else None
        self._ends_at = now + seconds if seconds else None

    def _attempt(self, call: Callable[[], T], place: str) -> T | Refusal:
        # Answered, not raised: no error of a library may become the context of one of ours.
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - hvac lets through whatever lies below it
            return refusal(error, place)

    def _opened(self) -> Any:
        client = self._client
        if client is None:
            raise SecretUnavailableError(
                "the secret backend 'vault' is not open: see `relay-gateway plugins list`"
            )
        return client

    def _now(self) -> float:
        return self._context.clock.monotonic()


def _or_raise(answer: T | Refusal) -> T:
    if isinstance(answer, Refusal):
        raise answer.error
    return answer


def _client(config: VaultConfig) -> Any:
    import hvac
    import requests

    session = requests.Session()
    # Neither proxies nor credentials nor certificates of the environment.
    session.trust_env = False
    session.verify = str(config.ca_file) if config.ca_file is not None else True
    return hvac.Client(
        url=config.address,
        token="",
        timeout=config.timeout_seconds,
        namespace=config.namespace,
        allow_redirects=False,
        session=session,
    )
