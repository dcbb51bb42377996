"""The SDK's client for one bucket: made when first needed, and anew with other credentials."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from relay_gateway.plugin import PluginContext, Secret
from relay_gateway_log_s3.access_keys import AccessKeys
from relay_gateway_log_s3.config import BucketConfig
from relay_gateway_log_s3.silence import silence_sdk

FALLBACK_REGION = "us-east-1"
"""What other stores than that of AWS expect in a signature, unless they say otherwise."""
HIDDEN = 8
"""Values kept out of the logs: the keys and tokens of this session and of the ones before it."""


class Clients:
    """Threads share the client. What they raise is botocore's."""

    def __init__(self, config: BucketConfig, context: PluginContext) -> None:
        self._config = config
        self._context = context
        self._lock = threading.Lock()
        self._session: Any = None
        self._client: Any = None
        self._keys: AccessKeys | None = None
        self._hidden: deque[Secret] = deque(maxlen=HIDDEN)

    def of(self, keys: AccessKeys | None) -> Any:
        """The client that signs with ``keys``; ``None`` are those that AWS tools would find."""
        with self._lock:
            if self._client is None or self._keys is not keys:
                self._close()
                self._client, self._keys = self._open(keys), keys
            self._hide_keys()
            return self._client

    def forget(self) -> None:
        """Closes the client; the next one begins with the search for credentials. Takes no lock, so
        that it never waits: whoever is making a client at the moment keeps it."""
        self._close()

    def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self, keys: AccessKeys | None) -> Any:
        import boto3

        silence_sdk()
        given = self._variables() if keys is None else keys.arguments()
        session = self._session = boto3.Session(profile_name=self._config.profile, **given)
        client = session.client(
            "s3",
            region_name=self._region(session),
            endpoint_url=self._config.endpoint_url,
            verify=self._config.ca_file,
            config=self._settings(),
        )
        silence_sdk()
        return client

    def _hide_keys(self) -> None:
        """Keeps what the session signs with out of the logs; the SDK may have renewed it."""
        found = self._session.get_credentials()
        keys = found.get_frozen_credentials() if found is not None else None
        for value in (keys.secret_key, keys.token) if keys is not None else ():
            if value and not any(secret.matches(value) for secret in self._hidden):
                secret = Secret(value)
                self._context.hide(secret)
                self._hidden.append(secret)

    def _variables(self) -> dict[str, str]:
        """Access keys of the variables as they were when the gateway started."""
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        given = {name.lower(): self._context.environ(name) for name in names}
        if self._config.profile is not None or not given["aws_access_key_id"]:
            return {}
        return {name: value for name, value in given.items() if value}

    def _region(self, session: Any) -> str:
        variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
        found = (self._context.environ(name) for name in variables)
        region = self._config.region or next(filter(None, found), None) or session.region_name
        return str(region or FALLBACK_REGION)

    def _settings(self) -> Any:
        from botocore.config import Config

        config = self._config
        proxy = config.proxy_url
        address = proxy.get_secret_value() if proxy else None
        checksums = "when_supported" if config.checksums else "when_required"
        return Config(
            signature_version="s3v4",
            s3={"addressing_style": "path" if config.path_style else "auto"},
            connect_timeout=config.connect_timeout,
            read_timeout=config.read_timeout,
            # Whoever hands over batches tries again, and nobody waits for both.
            retries={"mode": "standard", "total_max_attempts": 1},
            proxies={"http": address, "https": address} if address else {},
            request_checksum_calculation=checksums,
            response_checksum_validation=checksums,
            max_pool_connections=self._context.max_threads,
            tcp_keepalive=True,
        )
