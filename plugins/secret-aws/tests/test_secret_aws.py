"""What the AWS backend reads, and how it words what it cannot read, against moto."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.errors import (
    SecretDeniedError,
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import RowBinding, SecretRef
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.plugin_tests import logged
from relay_gateway_secret_aws import AwsConfig, AwsRef, AwsSecrets, relay_register_secret_backends

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"
ROLE = "arn:aws:iam::123456789012:role/host-keys"


def ref(name: str, **members: str) -> AwsRef:
    return AwsRef.model_validate({"secretId": name, **members})


async def test_the_whole_text_is_the_credential_and_its_version_is_told(
    make: Any, put: Any
) -> None:
    await put("whole", f"{CANARY}\n")
    resolved = await make().resolve(ref("whole"), BINDING)
    assert resolved.value.matches(CANARY)
    assert len(resolved.version) == 36
    assert resolved.ttl is None


async def test_the_lifetime_of_values_can_be_configured(make: Any, put: Any) -> None:
    await put("lifetime", CANARY)
    assert (await make(ttl_seconds=60).resolve(ref("lifetime"), BINDING)).ttl == 60


async def test_a_member_of_a_json_object_is_read_by_its_key(make: Any, put: Any) -> None:
    await put("object", json.dumps({"api.key": CANARY, "other": "no"}))
    resolved = await make().resolve(ref("object", jsonKey="api.key"), BINDING)
    assert resolved.value.matches(CANARY)


@pytest.mark.parametrize("value", [CANARY, json.dumps([CANARY]), json.dumps(CANARY), "[" * 50_000])
async def test_a_member_of_something_else_is_refused_without_showing_it(
    make: Any, put: Any, value: str
) -> None:
    await put("no-object", value)
    with pytest.raises(SecretDeniedError, match="no JSON object; leave out jsonKey") as caught:
        await make().resolve(ref("no-object", jsonKey="key"), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})


async def test_a_member_that_is_missing_or_no_string_is_told_apart(make: Any, put: Any) -> None:
    await put("members", json.dumps({"number": 5, CANARY: "x"}))
    with pytest.raises(SecretNotFoundError, match="no such key") as caught:
        await make().resolve(ref("members", jsonKey="absent"), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})
    with pytest.raises(SecretDeniedError, match="is no string"):
        await make().resolve(ref("members", jsonKey="number"), BINDING)


async def test_a_binary_secret_that_is_text_is_read(make: Any, put: Any) -> None:
    await put("binary", CANARY.encode())
    assert (await make().resolve(ref("binary"), BINDING)).value.matches(CANARY)


async def test_a_stage_names_the_version(make: Any, put: Any) -> None:
    await put("staged", "the-first-value")
    await put("staged", "the-second-value")
    current = await make().resolve(ref("staged"), BINDING)
    previous = await make().resolve(ref("staged", versionStage="AWSPREVIOUS"), BINDING)
    assert current.value.matches("the-second-value")
    assert previous.value.matches("the-first-value")
    assert current.version != previous.version
    with pytest.raises(SecretNotFoundError, match="no such secret or version"):
        await make().resolve(ref("staged", versionStage="AWSPENDING"), BINDING)


async def test_the_region_is_that_of_the_reference_else_of_the_arn_else_the_configured(
    aws: Any, make: Any, put: Any
) -> None:
    await put("regional", "in-frankfurt")
    await put("regional", "in-virginia", "us-east-1")
    backend = make()
    assert (await backend.resolve(ref("regional"), BINDING)).value.matches("in-frankfurt")
    there = await backend.resolve(ref("regional", region="us-east-1"), BINDING)
    assert there.value.matches("in-virginia")
    client = aws.client("secretsmanager", "admin", "us-east-1")
    arn = client.describe_secret(SecretId="regional")["ARN"]
    client.close()
    assert (await backend.resolve(ref(arn), BINDING)).value.matches("in-virginia")


async def test_the_region_can_come_from_the_environment(aws: Any, make: Any, put: Any) -> None:
    await put("from-environment", CANARY)
    environ = {**aws.identities["reader"], "AWS_REGION": "eu-central-1"}
    backend = make(environ=environ, region=None)
    assert (await backend.resolve(ref("from-environment"), BINDING)).value.matches(CANARY)


async def test_without_any_region_it_says_what_to_set(aws: Any, make: Any) -> None:
    with pytest.raises(SecretDeniedError, match="set region in"):
        await make(region=None).resolve(ref("anything"), BINDING)


async def test_a_secret_that_is_being_deleted_is_not_found(aws: Any, make: Any, put: Any) -> None:
    await put("deleted", CANARY)
    client = aws.client("secretsmanager", "admin")
    client.delete_secret(SecretId="deleted", RecoveryWindowInDays=7)
    client.close()
    with pytest.raises(SecretNotFoundError, match="being deleted"):
        await make().resolve(ref("deleted"), BINDING)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX-Other: 1", f"{CANARY}\t", "schlüssel"])
async def test_t22_a_value_that_is_no_header_value_is_refused_without_being_shown(
    make: Any, put: Any, value: str
) -> None:
    await put("no-header", value)
    with pytest.raises(SecretDeniedError, match="cannot be a host key") as caught:
        await make().resolve(ref("no-header"), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})


async def test_an_identity_without_permission_is_denied(make: Any, put: Any) -> None:
    await put("forbidden", CANARY)
    with pytest.raises(SecretDeniedError, match="secretsmanager:GetSecretValue"):
        await make("nobody").resolve(ref("forbidden"), BINDING)


async def test_t11_a_wrong_signature_is_denied_and_no_key_is_shown(
    aws: Any, make: Any, put: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    await put("signed", CANARY)
    environ = {**aws.identities["reader"], "AWS_SECRET_ACCESS_KEY": "wrong-canary-77aa12bb"}
    with pytest.raises(SecretDeniedError) as caught:
        await make(environ=environ).resolve(ref("signed"), BINDING)
    shown = {"error": wording(caught.value), "log": caplog.text}
    assert_silent("wrong-canary-77aa12bb", shown)


async def test_a_profile_of_the_shared_files_is_used(
    aws: Any, make: Any, put: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    await put("by-profile", CANARY)
    keys = aws.identities["reader"]
    lines = [f"{name.lower()} = {value}" for name, value in keys.items()]
    file = tmp_path / "credentials"
    file.write_text("\n".join(["[gateway]", *lines]))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    backend = make(environ=aws.identities["nobody"], profile="gateway")
    assert (await backend.resolve(ref("by-profile"), BINDING)).value.matches(CANARY)
    with pytest.raises(SecretDeniedError, match="ProfileNotFound"):
        await make(profile="unheard-of").resolve(ref("by-profile"), BINDING)


async def test_without_credentials_it_says_what_is_missing(make: Any) -> None:
    with pytest.raises(SecretUnavailableError, match="give the gateway AWS credentials"):
        await make(environ={}).resolve(ref("anything"), BINDING)


async def test_credentials_that_appear_later_are_found(
    aws: Any, make: Any, put: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    await put("later", CANARY)
    backend = make(environ={})
    with pytest.raises(SecretUnavailableError):
        await backend.resolve(ref("later"), BINDING)
    keys = aws.identities["reader"]
    lines = [f"{name.lower()} = {value}" for name, value in keys.items()]
    (tmp_path / "aws_shared_credentials_file").write_text("\n".join(["[default]", *lines]))
    assert (await backend.resolve(ref("later"), BINDING)).value.matches(CANARY)


async def test_f52_who_waits_for_the_credentials_of_another_thread_gives_up(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_gateway_secret_aws.clients.PATIENCE", 0.05)
    backend = make()
    told = pytest.raises(SecretUnavailableError, match="still being fetched")
    with backend._clients._lock, told:
        await backend.resolve(ref("anything"), BINDING)


def assumed_key(backend: AwsSecrets) -> str:
    return str(backend._clients._session.get_credentials().access_key)


async def test_a_role_is_assumed_and_kept_until_shortly_before_its_end(
    make: Any, put: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    await put("by-role", CANARY)
    backend = make("assumer", role_arn=ROLE, external_id="external-5150")
    assert (await backend.resolve(ref("by-role"), BINDING)).value.matches(CANARY)
    first = assumed_key(backend)
    backend.context.clock.advance(3600 - 301)
    await backend.resolve(ref("by-role"), BINDING)
    assert assumed_key(backend) == first
    backend.context.clock.advance(1)
    await backend.resolve(ref("by-role"), BINDING)
    assert assumed_key(backend) != first
    frozen = backend._clients._session.get_credentials()
    assert_silent(frozen.secret_key, {"log": caplog.text})
    assert_silent(frozen.token, {"log": caplog.text})
    told = f"a library says {frozen.token} and {frozen.secret_key}"
    assert_silent(frozen.token, {"log, after context.hide()": logged(told)})
    assert_silent(frozen.secret_key, {"log, after context.hide()": logged(told)})


async def test_a_role_that_may_not_be_assumed_is_denied(make: Any, put: Any) -> None:
    await put("by-role", CANARY)
    with pytest.raises(SecretDeniedError, match="sts:AssumeRole on role_arn"):
        await make("reader", role_arn=ROLE).resolve(ref("by-role"), BINDING)


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
async def test_t13_no_level_of_any_logger_of_the_sdk_shows_the_secret(
    make: Any, put: Any, caplog: pytest.LogCaptureFixture, level: str
) -> None:
    await put("logged", CANARY)
    backend = make()
    await backend.resolve(ref("logged"), BINDING)
    for name in ("botocore", "botocore.parsers", "botocore.endpoint", "botocore.auth", "urllib3"):
        caplog.set_level(level, logger=name)
    await backend.resolve(ref("logged"), BINDING)
    assert_silent(CANARY, {"log": caplog.text})


def test_installing_it_costs_no_import_of_the_sdk() -> None:
    code = "import sys, relay_gateway_secret_aws; print({'boto3', 'botocore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_it_registers_one_backend() -> None:
    assert list(relay_register_secret_backends()) == [AwsSecrets]


async def test_a_reference_of_another_kind_is_refused(make: Any) -> None:
    class Other(SecretRef):
        kind: str = "other"

    with pytest.raises(SecretRefError, match="is not one to AWS"):
        await make().resolve(Other(), BINDING)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"region": "Frankfurt"}, "region"),
        ({"endpoint_url": "ftp://127.0.0.1"}, "endpoint_url"),
        ({"role_arn": "host-keys"}, "role_arn"),
        ({"external_id": CANARY}, "set role_arn"),
        ({"read_timeout": 0}, "read_timeout"),
        ({"reigon": "eu-central-1"}, "reigon"),
    ],
)
def test_a_bad_section_names_the_key_and_shows_no_secret(
    section: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told) as caught:
        AwsConfig.model_validate(section)
    assert CANARY not in str(caught.value)


def test_every_member_of_a_reference_is_described_for_a_form() -> None:
    members = AwsRef.model_json_schema(by_alias=True)["properties"]
    assert set(members) == {"kind", "secretId", "jsonKey", "versionStage", "region"}
    assert all(member.get("description") for name, member in members.items() if name != "kind")


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 2049])
def test_a_name_that_aws_could_not_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ref(name)
