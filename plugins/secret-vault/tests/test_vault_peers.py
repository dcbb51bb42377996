"""The fake answers hvac's own calls as a real server does; where one is installed, it is asked the
same."""

from __future__ import annotations

from typing import Any

import hvac.exceptions
import pytest


def test_it_tells_the_version_of_a_mount(peer: Any) -> None:
    for version in (1, 2):
        mount = peer.mount(f"told-{version}", version)
        peer.put(mount, version, "some/path", key="value")
        with peer.client() as client:
            facts = client.adapter.get(f"/v1/sys/internal/ui/mounts/{mount}")["data"]
        assert facts["type"] == "kv"
        assert facts["path"] == f"{mount}/"
        assert facts["options"] == {"version": str(version)}


def test_kv_1_keeps_one_value_and_tells_a_lease(peer: Any) -> None:
    mount = peer.mount("kv-one", 1)
    peer.put(mount, 1, "acme", key="value", ttl="90s")
    with peer.client() as client:
        answer = client.secrets.kv.v1.read_secret("acme", mount_point=mount)
        assert answer["data"] == {"key": "value", "ttl": "90s"}
        assert answer["lease_duration"] == 90
        assert answer["lease_id"] == ""
        client.secrets.kv.v1.delete_secret("acme", mount_point=mount)
        with pytest.raises(hvac.exceptions.InvalidPath):
            client.secrets.kv.v1.read_secret("acme", mount_point=mount)


def test_kv_2_keeps_versions_and_tells_deleted_from_missing(peer: Any) -> None:
    mount = peer.mount("kv-two", 2)
    peer.put(mount, 2, "acme", key="first")
    peer.put(mount, 2, "acme", key="second")
    with peer.client() as client:
        read = client.secrets.kv.v2.read_secret_version
        newest = read("acme", mount_point=mount, raise_on_deleted_version=True)
        assert newest["data"]["data"] == {"key": "second"}
        assert newest["data"]["metadata"]["version"] == 2
        assert newest["lease_duration"] == 0
        first = read("acme", version=1, mount_point=mount, raise_on_deleted_version=True)
        assert first["data"]["data"] == {"key": "first"}
        client.secrets.kv.v2.delete_latest_version_of_secret("acme", mount_point=mount)
        deleted = read("acme", mount_point=mount, raise_on_deleted_version=False)
        assert deleted["data"]["data"] is None
        assert deleted["data"]["metadata"]["deletion_time"] != ""
        for path, version in (("acme", None), ("acme", 9), ("nothing", None)):
            with pytest.raises(hvac.exceptions.InvalidPath):
                read(path, version=version, mount_point=mount, raise_on_deleted_version=True)


def test_a_policy_limits_what_a_token_reads(peer: Any) -> None:
    mount = peer.mount("limited", 2)
    peer.put(mount, 2, "mine", key="value")
    peer.put(mount, 2, "theirs", key="value")
    with peer.client(peer.token(f"{mount}/data/mine")) as client:
        read = client.secrets.kv.v2.read_secret_version
        assert read("mine", mount_point=mount, raise_on_deleted_version=True)
        with pytest.raises(hvac.exceptions.Forbidden):
            read("theirs", mount_point=mount, raise_on_deleted_version=True)
        assert client.adapter.get(f"/v1/sys/internal/ui/mounts/{mount}")["data"]["type"] == "kv"
        with pytest.raises(hvac.exceptions.Forbidden):
            client.adapter.get("/v1/sys/internal/ui/mounts/another")


def test_tokens_live_are_renewed_and_die(peer: Any) -> None:
    with peer.client(peer.token("secret/data/x", ttl="120s")) as client:
        facts = client.auth.token.lookup_self()["data"]
        assert 110 <= facts["ttl"] <= 120
        assert facts["renewable"] is True
        renewed = client.auth.token.renew_self()["auth"]
        assert 110 <= renewed["lease_duration"] <= 120
        assert renewed["renewable"] is True
        client.auth.token.revoke_self()
        for call in (client.auth.token.lookup_self, client.auth.token.renew_self):
            with pytest.raises(hvac.exceptions.Forbidden):
                call()


def test_root_never_ends_and_what_may_not_be_renewed_is_not(peer: Any) -> None:
    with peer.client() as client:
        assert client.auth.token.lookup_self()["data"]["ttl"] == 0
    with peer.client(peer.token("secret/data/x", ttl="120s", renewable=False)) as client:
        assert client.auth.token.lookup_self()["data"]["renewable"] is False
        with pytest.raises(hvac.exceptions.InvalidRequest):
            client.auth.token.renew_self()


def test_an_approle_logs_in_with_both_its_ids(peer: Any) -> None:
    with peer.client() as client:
        client.sys.enable_auth_method("approle", path="approle-peers")
        where = {"mount_point": "approle-peers"}
        client.auth.approle.create_or_update_approle("gateway", token_ttl="300s", **where)
        role_id = client.auth.approle.read_role_id("gateway", **where)["data"]["role_id"]
        made = client.auth.approle.generate_secret_id("gateway", **where)
        secret_id = made["data"]["secret_id"]
        auth = client.auth.approle.login(role_id, secret_id, use_token=False, **where)["auth"]
        assert auth["lease_duration"] == 300
        assert auth["renewable"] is True
        with pytest.raises(hvac.exceptions.InvalidRequest):
            client.auth.approle.login(role_id, "wrong", use_token=False, **where)
