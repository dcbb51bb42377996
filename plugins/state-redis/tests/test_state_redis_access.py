"""Accounts, passwords and certificates; and that none of them is ever shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from relay_gateway.errors import SecretUnavailableError, StorageUnavailableError
from relay_gateway.plugin import Hold, ResolvedSecret, Secret
from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway_state_redis import RedisConfig, RedisStore
from relay_gateway_state_redis.testing.groups import RedisCluster, RedisSentinel
from relay_gateway_state_redis.testing.server import Protection, RedisServer

HOLDS = [
    Hold("requests", 1, 10, 60.0, "sliding-window"),
    Hold("tokens", 5, 10, 60.0, "token-bucket"),
    Hold("concurrency", 1, 10, 60.0, "gauge"),
]
ACCOUNT = (
    "~{relay}:* +eval +evalsha +time +get +set +del +pexpire "
    "+zadd +zrem +zincrby +zscore +zrangebyscore"
)
"""What docs/how-to/shared-limits-with-redis.md tells to give an account."""


IN_A_CLUSTER = "+cluster|slots +command"


async def works(store: RedisStore, request_id: str = "request") -> None:
    for number in range(2):
        await store.reserve(f"{request_id}-{number}", HOLDS)
        await store.reserve(f"{request_id}-{number}", HOLDS)
        await store.settle(f"{request_id}-{number}", HOLDS, [1, 3, 0])
    await store.settle(request_id, HOLDS, [1, 3, 0])


async def test_an_account_needs_no_more_than_is_documented(opened: Any, canary: Canary) -> None:
    password = canary.secret("redis")
    users = (f"default on >{canary.secret('admin')} ~* +@all", f"relay on >{password} {ACCOUNT}")
    with RedisServer(Protection(canary.secret("admin"), users=users)) as server:
        await works(await opened(server.url, username="relay", password=password))


def test_the_documented_account_is_this_one() -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "shared-limits-with-redis.md"
    text = " ".join(page.read_text("utf-8").replace("\\\n", " ").split())
    assert ACCOUNT in text
    assert IN_A_CLUSTER in text


async def test_in_a_cluster_it_needs_what_is_documented_besides(
    cluster: RedisCluster, opened: Any, canary: Canary
) -> None:
    password = canary.secret("redis")
    rules = [*ACCOUNT.split(), *IN_A_CLUSTER.split()]
    for server in cluster.masters:
        server.command("ACL", "SETUSER", "relay", "reset", "on", f">{password}", *rules)
    await works(await opened(cluster.url, username="relay", password=password))


async def test_account_and_password_may_be_in_the_url(opened: Any, canary: Canary) -> None:
    admin = canary.secret("admin")
    users = (f"default on >{admin} ~* +@all", f"relay on >p:@/ss%w {ACCOUNT}")
    with RedisServer(Protection(admin, users=users)) as server:
        url = f"redis://relay:p%3A%40%2Fss%25w@127.0.0.1:{server.port}/0"
        await works(await opened(url))


async def test_a_password_in_a_file_may_change(opened: Any, canary: Canary, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(canary.secret("first") + "\n")
    with RedisServer(Protection(canary.secret("first"))) as server:
        store = await opened(server.url, password_file=file)
        await works(store)
        server.command("CONFIG", "SET", "requirepass", canary.secret("second"))
        server.protection = Protection(canary.secret("second"))
        file.write_text(canary.secret("second"))
        server.command("CLIENT", "KILL", "TYPE", "normal")
        await works(store, "again")


class Backend:
    """A secret backend that counts how often it is asked."""

    def __init__(self, value: str) -> None:
        self.value: str | None = value
        self.asked: list[Mapping[str, Any]] = []

    async def resolve(self, reference: Mapping[str, Any]) -> ResolvedSecret:
        self.asked.append(reference)
        if self.value is None:
            raise SecretUnavailableError("the backend is away")
        return ResolvedSecret(Secret(self.value), ttl=60.0)


async def test_a_password_of_a_secret_backend_is_asked_for_again_when_refused(
    canary: Canary, tmp_path: Path
) -> None:
    backend, clock = Backend(canary.secret("first")), FakeClock()
    with RedisServer(Protection(canary.secret("first"))) as server:
        config = RedisConfig(url=SecretStr(server.url), value_from={"kind": "env", "env": "REDIS"})
        context = plugin_context(tmp_path, resolve_secret=backend.resolve, clock=clock)
        store = RedisStore(config, context)
        await store.aopen()
        await works(store)
        assert backend.asked == [{"kind": "env", "env": "REDIS"}]
        server.command("CONFIG", "SET", "requirepass", canary.secret("second"))
        server.protection = Protection(canary.secret("second"))
        server.command("CLIENT", "KILL", "TYPE", "normal")
        backend.value = canary.secret("second")
        with pytest.raises(StorageUnavailableError, match="the account or its password is refused"):
            await works(store, "refused")
        await works(store, "accepted")
        assert len(backend.asked) == 2
        backend.value = None
        clock.advance(61)
        server.command("CLIENT", "KILL", "TYPE", "normal")
        await works(store, "backend away")
        await store.aclose()
        await context.aclose()


async def test_sentinels_may_have_a_password_of_their_own(opened: Any, canary: Canary) -> None:
    data, watch = canary.secret("data"), canary.secret("watch")
    with RedisSentinel(Protection(data)) as sentinel:
        for one in sentinel.sentinels:
            one.command("ACL", "SETUSER", "default", "resetpass", f">{watch}")
        settings = {"password": data, "sentinel_password": watch}
        await works(await opened(sentinel.url, **settings))
        refused = await opened(sentinel.url, password=data, sentinel_password="wrong")
        with pytest.raises(StorageUnavailableError):
            await works(refused)


async def test_f32_another_certificate_is_never_accepted(opened: Any, certificate: Path) -> None:
    with RedisServer(Protection(certificate=certificate)) as server:
        await works(await opened(server.url, ca_file=certificate))
        stranger = await opened(server.url)
        with pytest.raises(StorageUnavailableError):
            await works(stranger)


async def test_a_server_may_ask_for_the_gateways_own_certificate(
    opened: Any, certificate: Path
) -> None:
    with RedisServer(Protection(certificate=certificate)) as server:
        server.command("CONFIG", "SET", "tls-auth-clients", "yes")
        await works(await opened(server.url, ca_file=certificate, cert_file=certificate))
        apart = {"cert_file": certificate, "key_file": certificate}
        await works(await opened(server.url, ca_file=certificate, **apart), "key apart")
        nobody = await opened(server.url, ca_file=certificate)
        with pytest.raises(StorageUnavailableError):
            await works(nobody)


@pytest.mark.parametrize("away", ["killed", "frozen", "refusing"])
async def test_a_redis_that_is_away_does_not_prevent_the_start(
    own_server: RedisServer, opened: Any, away: str, caplog: pytest.LogCaptureFixture
) -> None:
    if away == "refusing":
        own_server.command("CONFIG", "SET", "requirepass", "of-the-server")
        own_server.protection = Protection("of-the-server")
    else:
        (own_server.kill if away == "killed" else own_server.freeze)()
    store = await opened(own_server.url, timeout_seconds=0.2)
    assert caplog.text.count("limits cannot be shared yet") == 1
    if away == "refusing":
        own_server.command("CONFIG", "SET", "requirepass", "")
    else:
        (own_server.restart if away == "killed" else own_server.thaw)()
    await works(store)


async def test_t15_no_credential_is_ever_shown(
    canary: Canary, tmp_path: Path, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    right, wrong = canary.secret("right"), canary.secret("wrong")
    shown: dict[str, str] = {}
    with RedisServer(Protection(right, certificate)) as server:
        for number, password in enumerate((right, wrong)):
            url = f"rediss://:{password}@127.0.0.1:{server.port}"
            config = RedisConfig(url=SecretStr(url), ca_file=certificate)
            context = plugin_context(tmp_path, plugin="redis")
            store = RedisStore(config, context)
            await store.aopen()
            try:
                await works(store)
            except StorageUnavailableError as error:
                shown[f"error {number}"] = f"{error!r} {error} {error.__cause__!r}"
            shown[f"objects {number}"] = f"{store!r} {config!r} {vars(store)!r}"
            shown[f"courier {number}"] = f"{vars(store._courier)!r}"
            await store.aclose()
            await context.aclose()
    shown["log"] = caplog.text
    assert "error 1" in shown
    assert_absent(canary, texts=shown)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "redis://:SECRET@"},
        {"url": "postgres://:SECRET@127.0.0.1"},
        {"url": "redis+sentinel://:SECRET@127.0.0.1:26379"},
        {"url": "redis://:SECRET@127.0.0.1/0?password=SECRET"},
        {"password": "SECRET", "password_file": "SECRET"},
        {"password": "SECRET", "namespace": "SECRET}"},
        {"sentinel_username": "SECRET"},
        {"key_file": "SECRET"},
    ],
)
def test_t15_a_wrong_section_is_refused_without_quoting_it(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        RedisConfig(**settings)
    assert "SECRET" not in str(caught.value)
