"""Clients of redis-py for each kind of address."""

from __future__ import annotations

from typing import Any, TypeAlias

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from relay_gateway.plugin import PluginContext, Secret
from relay_gateway_state_redis.address import Address
from relay_gateway_state_redis.config import RedisConfig
from relay_gateway_state_redis.credentials import FileLogin, Login, ReferredLogin

Client: TypeAlias = "Redis | RedisCluster"


def login_of(config: RedisConfig, address: Address, context: PluginContext) -> Login | None:
    """Who the gateway is to the servers; ``None`` where nobody asks."""
    username = config.username or address.username
    if config.value_from is not None:
        return ReferredLogin(username, config.value_from, context)
    if config.password_file is not None:
        return FileLogin(username, config.password_file, context)
    password = address.password
    if config.password is not None:
        password = Secret(config.password.get_secret_value())
    if username is None and password is None:
        return None
    if password is not None:
        context.hide(password)
    return Login(username, password)


def connect(
    config: RedisConfig, address: Address, login: Login | None, context: PluginContext
) -> Client:
    """A client that has asked nobody anything yet."""
    options = _transport(config, address)
    if address.topology == "sentinel":
        return _behind_sentinels(config, address, login, options, context)
    options["credential_provider"] = login
    if address.topology == "cluster":
        return RedisCluster(
            startup_nodes=[ClusterNode(node.host, node.port) for node in address.nodes],
            max_connections=config.max_connections + 2,  # it looks at the slots besides
            **options,
        )
    (node,) = address.nodes
    return Redis(
        host=node.host,
        port=node.port,
        db=address.database,
        max_connections=config.max_connections,
        **options,
    )


async def disconnect(client: Client) -> None:
    """Closes all connections of ``client``, those to sentinels, too."""
    pool = getattr(client, "connection_pool", None)
    await client.aclose()
    if isinstance(pool, SentinelConnectionPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _behind_sentinels(
    config: RedisConfig,
    address: Address,
    login: Login | None,
    options: dict[str, Any],
    context: PluginContext,
) -> Client:
    asked = dict(options)
    if config.sentinel_password is not None:
        password = Secret(config.sentinel_password.get_secret_value())
        context.hide(password)
        asked["credential_provider"] = Login(config.sentinel_username, password)
    sentinels: Any = Sentinel(  # type: ignore[no-untyped-call]
        [(node.host, node.port) for node in address.nodes],
        sentinel_kwargs=asked,
        credential_provider=login,
        db=address.database,
        max_connections=config.max_connections,
        **options,
    )
    master: Redis = sentinels.master_for(address.service)
    return master


def _transport(config: RedisConfig, address: Address) -> dict[str, Any]:
    options: dict[str, Any] = {
        "socket_timeout": config.timeout_seconds,
        "socket_connect_timeout": config.timeout_seconds,
        # A repeated call takes nothing twice, so one that met a connection which the server had
        # closed may be sent again.
        "retry": Retry(NoBackoff(), 1),
        # These would be round trips of each new connection.
        "protocol": 2,
        "driver_info": None,
    }
    if address.tls:
        key = config.key_file or config.cert_file
        options |= {
            "ssl": True,
            "ssl_ca_certs": None if config.ca_file is None else str(config.ca_file),
            "ssl_certfile": None if config.cert_file is None else str(config.cert_file),
            "ssl_keyfile": None if key is None else str(key),
        }
    return options
