"""AWS as moto plays it, in a process of its own, with signatures and permissions checked."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import boto3
import httpx
import pytest

from relay_gateway.testing.context import plugin_context
from relay_gateway_secret_aws import AwsConfig, AwsSecrets

ACCOUNT = "123456789012"
REGION = "eu-central-1"
READER = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": "*"}
ADMIN = {"Effect": "Allow", "Action": "*", "Resource": "*"}
_ADDRESS = re.compile(rb"Running on (http://127\.0\.0\.1:\d+)")


@dataclass(slots=True)
class Aws:
    """The server, and identities in it by name: environments with their access keys."""

    url: str
    identities: dict[str, dict[str, str]] = field(default_factory=dict)

    def client(self, service: str, identity: str | None = None, region: str = REGION) -> Any:
        """A client of the test's own."""
        keys = self.identities.get(identity or "", {})
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id=keys.get("AWS_ACCESS_KEY_ID", "none"),
            aws_secret_access_key=keys.get("AWS_SECRET_ACCESS_KEY", "none"),
        )

    def put(self, name: str, value: str | bytes, region: str = REGION) -> None:
        """Creates the secret or gives it another value."""
        client = self.client("secretsmanager", "admin", region)
        kind = "SecretString" if isinstance(value, str) else "SecretBinary"
        try:
            client.put_secret_value(SecretId=name, **{kind: value})
        except client.exceptions.ResourceNotFoundException:
            client.create_secret(Name=name, **{kind: value})
        finally:
            client.close()


def _person(iam: Any, name: str, *statements: dict[str, str]) -> dict[str, str]:
    iam.create_user(UserName=name)
    policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    if statements:
        iam.put_user_policy(UserName=name, PolicyName="only", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


def _role(iam: Any, name: str, external_id: str) -> None:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:user/assumer"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"sts:ExternalId": external_id}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    policy = json.dumps({"Version": "2012-10-17", "Statement": [READER]})
    iam.put_role_policy(RoleName=name, PolicyName="only", PolicyDocument=policy)


def _people(aws: Aws) -> None:
    iam = aws.client("iam")
    assume = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}
    aws.identities |= {
        "admin": _person(iam, "admin", ADMIN),
        "reader": _person(iam, "reader", READER),
        "nobody": _person(iam, "nobody"),
        "assumer": _person(iam, "assumer", assume),
    }
    _role(iam, "host-keys", "external-5150")
    iam.close()
    # From here on every call needs a good signature and a permission.
    httpx.post(f"{aws.url}/moto-api/reset-auth", content=b"0", trust_env=False)


def _address(output: IO[bytes]) -> str:
    told = b""
    while not (found := _ADDRESS.search(told)):
        line = output.readline()
        assert line, told.decode()
        told += line
    return found.group(1).decode()


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws]:
    command = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        assert server.stderr is not None
        try:
            world = Aws(_address(server.stderr))
            # It goes on telling what it is asked, and would stop when nobody listens.
            threading.Thread(target=server.stderr.read).start()
            _people(world)
            yield world
        finally:
            server.terminate()


@pytest.fixture(autouse=True)
def no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own: neither its files nor its role."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


MakeBackend = Callable[..., AwsSecrets]


@pytest.fixture
async def make(aws: Aws, tmp_path: Path) -> Any:
    """Makes backends that are closed after the test, as ``identity`` or with ``environ``."""
    made: list[AwsSecrets] = []

    def backend(
        identity: str = "reader", *, environ: dict[str, str] | None = None, **config: Any
    ) -> AwsSecrets:
        settings = {"region": REGION, "endpoint_url": aws.url, "sts_endpoint_url": aws.url}
        variables = aws.identities[identity] if environ is None else environ
        context = plugin_context(tmp_path, plugin="aws-secrets-manager", environ=variables)
        one = AwsSecrets(AwsConfig.model_validate(settings | config), context)
        made.append(one)
        return one

    yield backend
    for one in made:
        await one.aclose()
        await one.context.aclose()


@pytest.fixture
def put(aws: Aws) -> Callable[..., Any]:
    """Writes a secret without blocking the loop."""

    async def written(*arguments: Any) -> None:
        await asyncio.to_thread(aws.put, *arguments)

    return written
