"""User names and passwords of egress proxies, had in the way of the credentials of host keys."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from relay_gateway.catalog.snapshot import ProxyCredential
from relay_gateway.errors import SecretError
from relay_gateway.pipeline.credentials import Credentials, Report, no_report
from relay_gateway.plugin.context import Clock
from relay_gateway.plugin.secrets import SecretBackend
from relay_gateway.secret import Secret

PAUSE_SECONDS = 10.0
"""How long a proxy that refused its login keeps it from being looked up, and said, again."""

_log = logging.getLogger(__name__)


class ProxyLogins:
    """The logins of this process, by host. A refused one is looked up again, for the next
    connection."""

    def __init__(
        self,
        backends: Mapping[str, SecretBackend],
        clock: Clock,
        report: Report = no_report,
    ) -> None:
        self._credentials = Credentials(backends, clock, check=_check_pair, report=report)
        self._clock = clock
        self._quiet_until: dict[str, float] = {}

    async def get(self, credential: ProxyCredential) -> Secret:
        """``user:password``. Raises :class:`SecretError`."""
        try:
            return await self._credentials.get(credential)
        except SecretError as error:
            if self._may_speak(credential):
                _log.warning("the proxyCredential of host %s: %s", credential.id, error)
            raise

    def refused(self, credential: ProxyCredential, login: Secret) -> None:
        """The proxy did not accept ``login``."""
        if self._may_speak(credential):
            _log.warning("the egress proxy of host %s refused its proxyCredential", credential.id)
            self._credentials.refused(credential, login)

    def describe(self, host_id: str) -> dict[str, object]:
        """What may be shown of the login of a host, as :meth:`.Credentials.describe`."""
        return self._credentials.describe(host_id)

    async def aclose(self) -> None:
        """Forgets every login."""
        await self._credentials.aclose()

    def _may_speak(self, credential: ProxyCredential) -> bool:
        now = self._clock.monotonic()
        if now < self._quiet_until.get(credential.id, now):
            return False
        self._quiet_until[credential.id] = now + PAUSE_SECONDS
        return True


def _check_pair(secret: Secret) -> None:
    value = secret.reveal()
    user, colon, _ = value.partition(":")
    if not user or not colon or not value.isprintable():
        raise SecretError("the value must be user:password, without control characters")
