"""The store: reservations and settlements, each one call of a script."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import Grant, Hold, PluginContext, StateStore
from relay_gateway_state_redis.address import SCHEMES, parse_address
from relay_gateway_state_redis.config import RedisConfig
from relay_gateway_state_redis.scripts import RESERVE, SETTLE, Call

if TYPE_CHECKING:
    from relay_gateway_state_redis.courier import Courier

MICROSECONDS = 1_000_000


class RedisStore(StateStore[RedisConfig]):
    """What limits have counted, in Redis or Valkey. Its clock is that of the server.

    Raises :class:`StorageUnavailableError` when the server gives no answer.
    """

    name: ClassVar[str] = "redis"
    schemes: ClassVar[tuple[str, ...]] = SCHEMES
    shared: ClassVar[bool] = True
    Config = RedisConfig

    def __init__(self, config: RedisConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._address = parse_address(config.url.get_secret_value())
        # Keys with the same text in braces are in one slot, so that a cluster, too, can reserve
        # all claims of a request or none.
        self._prefix = f"{{{config.namespace}}}:"
        self._courier: Courier | None = None

    async def aopen(self) -> None:
        """Makes the client. A server that is away is logged: it may come later."""
        await self.aclose()
        # It takes a tenth of a second, in which a gateway that serves already has to go on.
        await self.context.run_blocking(import_module, "relay_gateway_state_redis.courier")
        self._courier = self._connect()
        try:
            async with asyncio.timeout(self.config.timeout_seconds):
                await self.settle("opening", (), ())
        except (StorageUnavailableError, TimeoutError) as error:
            reason = str(error) or f"no answer from {self._address.place}"
            self.context.logger.warning("limits cannot be shared yet: %s", reason)

    async def aclose(self) -> None:
        """Closes all connections; calls that wait end with an error."""
        courier, self._courier = self._courier, None
        if courier is not None:
            await courier.aclose()

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        arguments = (request_id, *map(_text, holds))
        answer = await self._open.ask(Call(RESERVE, self._keys(request_id, holds), arguments))
        return _grant(answer, len(holds))

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        arguments = (request_id, *map(_text, holds), *map(str, used))
        await self._open.ask(Call(SETTLE, self._keys(request_id, holds), arguments))

    def _connect(self) -> Courier:
        # The client of Redis is loaded only where limits are kept there.
        from relay_gateway_state_redis.connect import connect, login_of
        from relay_gateway_state_redis.courier import Courier

        login = login_of(self.config, self._address, self.context)
        client = connect(self.config, self._address, login, self.context)
        return Courier(client, login, self._address.place, self.config.max_connections)

    @property
    def _open(self) -> Courier:
        if self._courier is None:
            raise StorageUnavailableError("the state store redis is not open")
        return self._courier

    def _keys(self, request_id: str, holds: Sequence[Hold]) -> list[str]:
        """The key of the reservation, then those of its counters."""
        # One request may reserve several times, each time something else.
        told = "\n".join(f"{hold.key}\t{hold.amount}" for hold in holds)
        digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        counters = (f"{self._prefix}{_kind(hold)}:{hold.key}" for hold in holds)
        return [f"{self._prefix}r:{request_id}:{digest}", *counters]


def _kind(hold: Hold) -> str:
    """Gauges and counters are different types of Redis."""
    return "g" if hold.strategy == "gauge" else "c"


def _text(hold: Hold) -> str:
    shadow = "1" if hold.shadow else "0"
    return f"{hold.strategy} {hold.amount} {hold.limit} {hold.window!r} {shadow}"


def _grant(answer: Sequence[int], count: int) -> Grant:
    refused, retry_after, *figures = answer
    return Grant(
        refused=refused,
        retry_after=retry_after / MICROSECONDS,
        remaining=tuple(figures[:count]),
        reset=tuple(reset / MICROSECONDS for reset in figures[count : 2 * count]),
        exceeded=tuple(figures[2 * count :]),
    )
