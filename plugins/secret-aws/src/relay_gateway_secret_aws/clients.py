"""Clients of Secrets Manager, by region: made when first needed, with a role that is kept fresh.

Everything here blocks and runs in the plugin's threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relay_gateway.errors import SecretUnavailableError
from relay_gateway.plugin import PluginContext, Secret
from relay_gateway_secret_aws.models import AwsConfig
from relay_gateway_secret_aws.silence import silence_sdk

PATIENCE = 4.0
"""Seconds to wait for what another thread fetches; about as long as anybody waits for a secret."""
RENEW_BEFORE = 300.0
"""Seconds before the end of a role session after which it is no longer used."""
HIDDEN = 8
"""Values kept out of the logs: the keys and tokens of two sessions, and of those before them."""


class Clients:
    """The SDK's clients. Threads may share them; what they raise is botocore's."""

    def __init__(self, config: AwsConfig, context: PluginContext) -> None:
        self._config = config
        self._context = context
        self._lock = threading.Lock()
        self._session: Any = None
        self._use_until: float | None = None
        self._clients: dict[str, Any] = {}
        self._hidden: deque[Secret] = deque(maxlen=HIDDEN)

    def of(self, region: str | None) -> Any:
        """The client for ``region``, or for the configured one.

        Waits for credentials, which may be on another machine; others wait for the same ones, and
        give up with :class:`SecretUnavailableError` after a while.
        """
        with self._turn():
            if self._use_until is not None and self._clock() >= self._use_until:
                self.forget()
            session = self._session or self._open_session()
            self._session = session
            self._hide_keys(session)
            name = region or self._region(session) or ""
            client = self._clients.get(name)
            if client is None:
                address = self._config.endpoint_url
                client = self._client(session, "secretsmanager", name, address)
                self._clients[name] = client
                silence_sdk()
            return client

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=PATIENCE):
            raise SecretUnavailableError("the gateway's AWS credentials are still being fetched")
        try:
            yield
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Closes all clients; the next one begins with the search for credentials.

        Never waits, so it takes no lock: whoever is making a client at the moment keeps it.
        """
        clients, self._clients = self._clients, {}
        self._session = self._use_until = None
        for client in clients.values():
            client.close()

    def _clock(self) -> float:
        return self._context.clock.monotonic()

    def _open_session(self) -> Any:
        import boto3

        silence_sdk()
        own = boto3.Session(profile_name=self._config.profile, **self._keys())
        if self._config.role_arn is None:
            return own
        self._hide_keys(own)
        began = self._clock()
        assumed = boto3.Session(region_name=self._region(own), **self._assume(own))
        self._use_until = began + self._config.role_seconds - RENEW_BEFORE
        return assumed

    def _hide_keys(self, session: Any) -> None:
        """Keeps what the session signs with out of the logs; the SDK may have renewed it."""
        found = session.get_credentials()
        keys = found.get_frozen_credentials() if found is not None else None
        for value in (keys.secret_key, keys.token) if keys is not None else ():
            if value and not any(secret.matches(value) for secret in self._hidden):
                self._hidden.append(Secret(value))
                self._context.hide(self._hidden[-1])

    def _keys(self) -> dict[str, str]:
        """Access keys of the variables as they were when the gateway started."""
        variables = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        given = {name.lower(): self._context.environ(name) for name in variables}
        if self._config.profile is not None or not given["aws_access_key_id"]:
            return {}
        return {name: value for name, value in given.items() if value}

    def _assume(self, session: Any) -> dict[str, str]:
        config = self._config
        sts = self._client(session, "sts", self._region(session) or "", config.sts_endpoint_url)
        silence_sdk()
        secret = config.external_id
        external = {} if secret is None else {"ExternalId": secret.get_secret_value()}
        try:
            answer = sts.assume_role(
                RoleArn=config.role_arn,
                RoleSessionName=config.session_name,
                DurationSeconds=config.role_seconds,
                **external,
            )
        finally:
            sts.close()
        credentials = answer["Credentials"]
        return {
            "aws_access_key_id": credentials["AccessKeyId"],
            "aws_secret_access_key": credentials["SecretAccessKey"],
            "aws_session_token": credentials["SessionToken"],
        }

    def _region(self, session: Any) -> str | None:
        variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
        found = (self._context.environ(name) for name in variables)
        region: str | None = self._config.region or next(filter(None, found), None)
        return region or session.region_name

    def _client(self, session: Any, service: str, region: str, endpoint: str | None) -> Any:
        from botocore.config import Config

        proxy = self._config.proxy_url
        address = proxy.get_secret_value() if proxy else None
        settings = Config(
            connect_timeout=self._config.connect_timeout,
            read_timeout=self._config.read_timeout,
            retries={"mode": "standard", "total_max_attempts": 2},
            proxies={"http": address, "https": address} if address else {},
            tcp_keepalive=True,
        )
        return session.client(
            service, region_name=region or None, endpoint_url=endpoint, config=settings
        )
