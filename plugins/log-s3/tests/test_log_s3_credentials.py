"""Whose credentials requests are signed with, and what happens when these change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.errors import SecretUnavailableError, StorageUnavailableError
from relay_gateway.plugin import PluginContext
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import usage_record
from relay_gateway_log_s3 import S3Usage, S3UsageConfig

MakeUsage = Callable[..., S3Usage]
Objects = Callable[[], Awaitable[dict[str, bytes]]]


async def test_the_reference_of_the_section_is_what_the_backend_is_asked_for(
    make_usage: MakeUsage, vault: Any
) -> None:
    sink = make_usage()
    for _ in range(3):
        await sink.write([usage_record()])
    assert vault.asked == [{"kind": "vault", "path": "s3"}], "once, as long as it is good"


async def test_f52_rotated_credentials_are_used_without_a_restart(
    make_usage: MakeUsage, objects: Objects, store: Any, vault: Any
) -> None:
    await asyncio.to_thread(store.person, "rotated", "s3:PutObject")
    old = store.keys["rotated"]
    vault.value = json.dumps(old)
    sink = make_usage()
    await sink.write([usage_record()])
    vault.value = json.dumps(await asyncio.to_thread(store.another_key, "rotated"))
    await asyncio.to_thread(store.withdraw, "rotated", old)
    await sink.write([usage_record()])
    assert len(await objects()) == 2
    assert len(vault.asked) == 2


async def test_a_value_is_asked_for_again_when_its_time_is_over(
    make_usage: MakeUsage, vault: Any, clock: FakeClock
) -> None:
    vault.ttl = 60.0
    sink = make_usage()
    await sink.write([usage_record()])
    clock.advance(59)
    await sink.write([usage_record()])
    assert len(vault.asked) == 1
    clock.advance(2)
    await sink.write([usage_record()])
    assert len(vault.asked) == 2


async def test_while_the_backend_is_down_the_old_credentials_stay_in_use(
    make_usage: MakeUsage,
    objects: Objects,
    vault: Any,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = make_usage()
    await sink.write([usage_record()])
    vault.failure = SecretUnavailableError("the vault is sealed")
    clock.advance(400)
    await sink.write([usage_record()])
    await sink.write([usage_record()])
    assert len(await objects()) == 3
    assert len(vault.asked) == 2, "not with every batch"
    assert "the vault is sealed; those from before stay in use" in caplog.text


async def test_without_credentials_the_reason_is_told(make_usage: MakeUsage, vault: Any) -> None:
    vault.failure = SecretUnavailableError("the vault is sealed")
    with pytest.raises(StorageUnavailableError, match=r"\[usage_sinks\.s3\].*vault is sealed"):
        await make_usage().write([usage_record()])


async def test_a_value_that_is_no_credential_is_told_and_not_shown(
    make_usage: MakeUsage, vault: Any
) -> None:
    for value in ("canary-1234567890", '["canary-1234567890"]', '{"accessKeyId": "canary-123456"}'):
        vault.value = value
        with pytest.raises(
            StorageUnavailableError, match="accessKeyId and secretAccessKey"
        ) as told:
            await make_usage().write([usage_record()])
        assert "canary" not in str(told.value)


@pytest.mark.parametrize(
    "names",
    [
        ("accessKeyId", "secretAccessKey"),
        ("AccessKeyId", "SecretAccessKey"),
        ("aws_access_key_id", "aws_secret_access_key"),
    ],
    ids=str,
)
async def test_members_may_be_spelled_as_others_do(
    make_usage: MakeUsage, objects: Objects, store: Any, vault: Any, names: tuple[str, str]
) -> None:
    vault.value = json.dumps(dict(zip(names, store.keys["writer"].values(), strict=True)))
    await make_usage().write([usage_record()])
    assert len(await objects()) == 1


async def test_the_value_may_be_the_secret_access_key_alone(
    make_usage: MakeUsage, objects: Objects, store: Any, vault: Any
) -> None:
    keys = store.keys["writer"]
    vault.value = keys["secretAccessKey"]
    await make_usage(access_key_id=keys["accessKeyId"]).write([usage_record()])
    assert len(await objects()) == 1


async def test_a_wrong_secret_is_refused_by_its_signature(
    make_usage: MakeUsage, store: Any, vault: Any
) -> None:
    vault.value = json.dumps(store.keys["writer"] | {"secretAccessKey": "x" * 40})
    with pytest.raises(StorageUnavailableError, match=r"403 .*expired, unknown or wrong") as told:
        await make_usage().write([usage_record()])
    assert "x" * 8 not in str(told.value)
    assert len(vault.asked) == 2, "another value could have helped"


async def test_variables_are_used_as_they_were_at_the_start(
    tmp_path: Path, settings: dict[str, Any], objects: Objects, store: Any
) -> None:
    keys = store.keys["writer"]
    variables = {
        "AWS_ACCESS_KEY_ID": keys["accessKeyId"],
        "AWS_SECRET_ACCESS_KEY": keys["secretAccessKey"],
        "AWS_REGION": settings["region"],
    }
    context = plugin_context(tmp_path, plugin="s3", environ=variables)
    await _write_as(settings | {"value_from": None, "region": None}, context)
    assert len(await objects()) == 1


async def test_a_profile_of_a_file_that_changes_is_read_again(
    tmp_path: Path, settings: dict[str, Any], objects: Objects, store: Any
) -> None:
    def written(keys: dict[str, str]) -> None:
        (tmp_path / "aws_shared_credentials_file").write_text(
            f"[logs]\naws_access_key_id={keys['accessKeyId']}\n"
            f"aws_secret_access_key={keys['secretAccessKey']}\n"
        )

    written(store.keys["writer"] | {"accessKeyId": "AKIAOUTOFDATE0000000"})
    context = plugin_context(tmp_path, plugin="s3")
    config = S3UsageConfig.model_validate(settings | {"value_from": None, "profile": "logs"})
    sink = S3Usage(config, context)
    batch = [usage_record()]
    with pytest.raises(StorageUnavailableError, match="expired, unknown or wrong"):
        await sink.write(batch)
    written(store.keys["writer"])
    await sink.write(batch)
    assert len(await objects()) == 1
    await sink.aclose()
    await context.aclose()


async def test_where_no_credentials_are_that_is_told(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    with pytest.raises(StorageUnavailableError, match=r"NoCredentialsError.*`value_from`"):
        await _write_as(settings | {"value_from": None}, plugin_context(tmp_path, plugin="s3"))


async def _write_as(settings: dict[str, Any], context: PluginContext) -> None:
    sink = S3Usage(S3UsageConfig.model_validate(settings), context)
    try:
        await sink.write([usage_record()])
    finally:
        await sink.aclose()
        await context.aclose()


@pytest.mark.parametrize(
    "wrong",
    [
        {"bucket": "No"},
        {"bucket": "a/b"},
        {"prefix": "usage"},
        {"prefix": "/usage/"},
        {"endpoint_url": "http://user:password@host"},
        {"access_key_id": "AKIA", "value_from": None},
        {"profile": "logs"},
        {"kms_key_id": "alias/x"},
        {"encryption": "rot13"},
        {"multipart_bytes": "1MiB"},
        {"read_timeout": 0},
        {"batch_seconds": float("nan")},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        S3UsageConfig.model_validate(settings | wrong)
