"""How the Vault backend logs in, stays logged in, and bears a Vault that is not as it should be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import SecretDeniedError, SecretUnavailableError
from relay_gateway.plugin import RowBinding, SystemClock
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.plugin_tests import logged
from relay_gateway_secret_vault import VaultRef

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"
REF = VaultRef(path="acme", key="api_key")
READ = {"token_policies": ["reader"]}


@pytest.fixture
def readable(fake: Any) -> Any:
    """The fake with a policy that may read the secret."""
    fake.tokens.write_policy("reader", 'path "secret/data/acme" { capabilities = ["read"] }')
    fake.requests.clear()
    return fake


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 10 s")


def live(fake: Any) -> list[str]:
    """Tokens besides root's."""
    return [token for token in fake.tokens.live if token != fake.root]


async def resolves(backend: Any) -> bool:
    return bool((await backend.resolve(REF, BINDING)).value.matches(CANARY))


async def with_approle(make: Any, peer: Any, **config: Any) -> Any:
    def prepare() -> tuple[str, str]:
        peer.mount("approle-kv", 2)
        peer.put("approle-kv", 2, "acme", api_key=CANARY)
        peer.token("approle-kv/data/acme")
        rules = 'path "approle-kv/data/acme" { capabilities = ["read"] }'
        with peer.client() as client:
            client.sys.create_or_update_policy("approle-reader", rules)
            with contextlib.suppress(Exception):
                client.sys.enable_auth_method("approle")
            role = client.auth.approle
            role.create_or_update_approle("relay", token_policies=["approle-reader"])
            role_id = role.read_role_id("relay")["data"]["role_id"]
            return role_id, role.generate_secret_id("relay")["data"]["secret_id"]

    role_id, secret_id = await asyncio.to_thread(prepare)
    login = {"auth": "approle", "role_id": role_id, "secret_id": secret_id}
    return make(peer.url, mounts=["approle-kv"], **login | config)


async def test_an_approle_logs_in(make: Any, peer: Any) -> None:
    backend = await with_approle(make, peer)
    await backend.aopen()
    assert await resolves(backend)


async def test_t11_the_token_of_a_login_and_what_it_was_had_for_are_hidden_from_logs(
    make: Any, peer: Any
) -> None:
    backend = await with_approle(make, peer)
    secret_id = backend.config.secret_id.get_secret_value()
    await backend.aopen()
    token = backend._session._login.token.reveal()
    assert token != secret_id
    told = f"a library says {token} for {secret_id}"
    assert_silent(token, {"log": logged(told)})
    assert_silent(secret_id, {"log": logged(told)})


async def test_a_secret_id_can_be_in_a_file_that_is_read_at_each_login(
    make: Any, peer: Any, tmp_path: Path
) -> None:
    file = tmp_path / "secret-id"
    right = await with_approle(make, peer)
    file.write_text(right.config.secret_id.get_secret_value() + "\n")
    backend = await with_approle(make, peer, secret_id=None, secret_id_file=str(file))
    await backend.aopen()
    assert await resolves(backend)


async def test_t11_a_wrong_secret_id_is_denied_and_not_shown(
    make: Any, peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    backend = await with_approle(make, peer, secret_id="wrong-canary-77aa12bb")
    with pytest.raises(SecretDeniedError) as caught:
        await backend.aopen()
    shown = {"error": wording(caught.value), "log": caplog.text, "config": repr(backend.config)}
    assert_silent("wrong-canary-77aa12bb", shown)


@pytest.mark.parametrize("method", ["kubernetes", "jwt"])
async def test_a_web_identity_logs_in_with_the_token_in_its_file(
    make: Any, readable: Any, tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    file = tmp_path / "jwt"
    file.write_text("header.canary-0f9e8d7c6b5a.signature\n")
    role = {"jwt": "header.canary-0f9e8d7c6b5a.signature", **READ}
    getattr(readable, method).roles["relay"] = role
    backend = make(readable.url, auth=method, role="relay", jwt_file=str(file))
    await backend.aopen()
    assert await resolves(backend)
    assert readable.requests[0] == f"auth/{method}/login"
    assert_silent("header.canary-0f9e8d7c6b5a.signature", {"log": caplog.text})
    assert_silent(live(readable)[0], {"log": caplog.text, "backend": repr(backend)})
    file.write_text("another")
    readable.tokens.live.clear()
    with pytest.raises(SecretDeniedError, match="for the login"):
        await resolves(backend)


async def test_a_file_that_cannot_be_read_is_named(
    make: Any, readable: Any, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    for name, why in (("missing", "FileNotFoundError"), ("empty", "it is empty")):
        backend = make(readable.url, auth="jwt", role="relay", jwt_file=str(tmp_path / name))
        with pytest.raises(SecretDeniedError, match=f"{name} cannot be used to log in.*{why}"):
            await backend.aopen()


async def test_a_token_comes_from_the_section_a_file_or_the_environment(
    make: Any, readable: Any, tmp_path: Path
) -> None:
    token = readable.tokens.issue({"policies": ["reader"]}).id
    file = tmp_path / "token"
    file.write_text(token)
    for backend in (
        make(readable.url, auth="token", token=token),
        make(readable.url, auth="token", token_file=str(file)),
        make(readable.url, {"VAULT_TOKEN": token}),
    ):
        await backend.aopen()
        assert await resolves(backend)
    with pytest.raises(SecretDeniedError, match="set token or token_file"):
        await make(readable.url, auth="token").aopen()


async def test_a_token_that_an_agent_replaced_is_read_from_its_file(
    make: Any, readable: Any, tmp_path: Path
) -> None:
    first, second = (readable.tokens.issue({"policies": ["reader"]}).id for _ in range(2))
    file = tmp_path / "token"
    file.write_text(first)
    backend = make(readable.url, token_file=str(file))
    await backend.aopen()
    del readable.tokens.live[first]
    file.write_text(second)
    assert await resolves(backend)


async def test_f52_a_token_that_is_refused_is_replaced_by_a_new_login_of_one(
    make: Any, readable: Any, tmp_path: Path
) -> None:
    readable.jwt.roles["relay"] = {"jwt": "j", **READ}
    (tmp_path / "jwt").write_text("j")
    backend = make(readable.url, auth="jwt", role="relay", jwt_file=str(tmp_path / "jwt"))
    await backend.aopen()
    readable.tokens.live.clear()
    assert all(await asyncio.gather(*(resolves(backend) for _ in range(4))))
    assert readable.requests.count("auth/jwt/login") == 2


async def test_a_path_that_is_denied_costs_no_login(
    make: Any, readable: Any, tmp_path: Path
) -> None:
    readable.jwt.roles["relay"] = {"jwt": "j", **READ}
    (tmp_path / "jwt").write_text("j")
    backend = make(readable.url, auth="jwt", role="relay", jwt_file=str(tmp_path / "jwt"))
    await backend.aopen()
    with pytest.raises(SecretDeniedError, match="let the gateway's policy"):
        await backend.resolve(VaultRef(path="other", key="api_key"), BINDING)
    assert readable.requests.count("auth/jwt/login") == 1


async def test_an_expired_token_is_not_sent(make: Any, readable: Any, tmp_path: Path) -> None:
    readable.jwt.roles["relay"] = {"jwt": "j", "token_ttl": 100, **READ}
    (tmp_path / "jwt").write_text("j")
    backend = make(readable.url, auth="jwt", role="relay", jwt_file=str(tmp_path / "jwt"))
    await backend.aopen()
    backend.context.clock.advance(100)
    assert await resolves(backend)
    assert readable.requests[-3:-1] == ["auth/jwt/login", "sys/internal/ui/mounts/secret"]


async def test_a_token_is_renewed_before_its_end_without_being_used(
    make: Any, readable: Any
) -> None:
    token = readable.tokens.issue({"policies": ["reader"], "ttl": 1})
    backend = make(readable.url, auth="token", token=token.id)
    backend.context.clock = SystemClock()
    await backend.aopen()
    await until(lambda: readable.tokens.renewals >= 2)
    assert await resolves(backend)
    assert token.id in readable.tokens.live


@pytest.mark.parametrize("limit", [{"token_type": "batch"}, {"token_max_ttl": 1}])
async def test_a_token_that_cannot_live_on_is_replaced_before_its_end(
    make: Any, readable: Any, tmp_path: Path, limit: dict[str, Any]
) -> None:
    readable.jwt.roles["relay"] = {"jwt": "j", "token_ttl": 1, **READ, **limit}
    (tmp_path / "jwt").write_text("j")
    backend = make(readable.url, auth="jwt", role="relay", jwt_file=str(tmp_path / "jwt"))
    backend.context.clock = SystemClock()
    await backend.aopen()
    await until(lambda: readable.requests.count("auth/jwt/login") >= 2)
    assert await resolves(backend)


async def test_f52_a_failed_renewal_is_logged_without_the_token_and_tried_again(
    make: Any, readable: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    token = readable.tokens.issue({"policies": ["reader"], "ttl": 5})
    backend = make(readable.url, auth="token", token=token.id)
    await backend.aopen()
    readable.sealed = True
    backend.context.clock.advance(4)
    with pytest.raises(SecretUnavailableError, match="sealed, busy or broken"):
        await asyncio.to_thread(backend._session.keep_alive)
    readable.sealed = False
    await asyncio.to_thread(backend._session.keep_alive)
    assert readable.tokens.renewals == 1
    assert_silent(token.id, {"log": caplog.text})


async def test_f52_a_sealed_vault_is_unavailable_until_it_is_unsealed(make: Any, fake: Any) -> None:
    backend = make(fake.url)
    await backend.aopen()
    fake.sealed = True
    with pytest.raises(SecretUnavailableError, match="VaultDown"):
        await resolves(backend)
    fake.sealed = False
    assert await resolves(backend)


async def test_it_can_be_opened_again_after_it_could_not_log_in(make: Any, fake: Any) -> None:
    backend = make(fake.url)
    fake.sealed = True
    with pytest.raises(SecretUnavailableError):
        await backend.aopen()
    fake.sealed = False
    await backend.aopen()
    assert await resolves(backend)


async def test_f52_who_waits_for_the_login_of_another_thread_gives_up(
    make: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_gateway_secret_vault.session.PATIENCE", 0.05)
    backend = make(fake.url)
    told = pytest.raises(SecretUnavailableError, match="still under way")
    with backend._session._lock, told:
        await backend.aopen()


async def test_t12_a_token_of_the_environment_is_withdrawn_from_it_once_it_is_in_use(
    make: Any, fake: Any
) -> None:
    withdrawn: list[str] = []
    backend = make(fake.url, {"VAULT_TOKEN": fake.root})
    backend.context.withdraw = withdrawn.append
    await backend.aopen()
    assert withdrawn == ["VAULT_TOKEN"]
    unused = make(fake.url, {"VAULT_TOKEN": "another"}, auth="token", token=fake.root)
    unused.context.withdraw = withdrawn.append
    await unused.aopen()
    assert withdrawn == ["VAULT_TOKEN"]


async def test_t05_a_redirect_is_not_followed(make: Any, fake: Any) -> None:
    fake.standby = "http://127.0.0.1:1"
    with pytest.raises(SecretUnavailableError, match="status 307 was not an active Vault"):
        await make(fake.url).aopen()


async def test_requests_are_made_in_the_configured_namespace(make: Any, fake: Any) -> None:
    fake.namespace = "team-a"
    backend = make(fake.url, namespace="team-a")
    await backend.aopen()
    assert await resolves(backend)
    with pytest.raises(SecretDeniedError):
        await make(fake.url, auth="jwt", role="x", jwt_file=__file__, namespace="team-b").aopen()


async def test_proxies_and_tokens_of_the_environment_are_not_heeded(
    make: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("VAULT_TOKEN", "of-the-machine")
    backend = make(fake.url)
    await backend.aopen()
    assert await resolves(backend)
