"""State store ``redis``: what limits have counted, shared by all gateways that use one Redis."""

from collections.abc import Sequence

from relay_gateway.plugin import StateStore, hookimpl
from relay_gateway_state_redis.config import RedisConfig
from relay_gateway_state_redis.store import RedisStore

__all__ = ["RedisConfig", "RedisStore"]


@hookimpl
def relay_register_state_stores() -> Sequence[type[StateStore]]:
    return (RedisStore,)
