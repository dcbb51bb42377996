"""S3 as moto plays it, in a process of its own, with signatures and permissions checked."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import boto3
import httpx
import pytest

from relay_gateway.plugin import PluginContext, ResolvedSecret, Secret
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway_log_s3 import S3Payloads, S3PayloadsConfig, S3Usage, S3UsageConfig

REGION = "eu-central-1"
ADMIN = ("*",)
WRITER = ("s3:PutObject", "s3:GetObject", "s3:ListBucket", "s3:AbortMultipartUpload")
_ADDRESS = re.compile(rb"Running on (http://127\.0\.0\.1:(\d+))")


@dataclass(slots=True)
class Store:
    """The server, and the access keys of the identities in it."""

    url: str
    keys: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, service: str = "s3", keys: Mapping[str, str] | None = None) -> Any:
        """A client of the test's own, of the administrator unless ``keys`` are given."""
        given = self.keys.get("admin", {}) if keys is None else keys
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=given.get("accessKeyId", "none"),
            aws_secret_access_key=given.get("secretAccessKey", "none"),
        )

    def make_bucket(self, name: str) -> None:
        """Creates an empty bucket."""
        client = self.client()
        client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        client.close()

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Everything in a bucket, unpacked, by name."""
        client = self.client()
        found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
        contents = {
            one["Key"]: gzip.decompress(
                client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
            )
            for one in found
        }
        client.close()
        return contents

    def head(self, bucket: str, name: str) -> dict[str, Any]:
        """What the store tells of an object."""
        client = self.client()
        try:
            return dict(client.head_object(Bucket=bucket, Key=name))
        finally:
            client.close()

    def person(self, name: str, *actions: str) -> dict[str, str]:
        """Makes an identity that may do ``actions``, and its access keys."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        if actions:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.put_user_policy(UserName=name, PolicyName="only", PolicyDocument=policy)
        keys = self.another_key(name, iam)
        iam.close()
        return keys

    def another_key(self, name: str, iam: Any = None) -> dict[str, str]:
        """New access keys of an identity."""
        made = (iam or self.client("iam")).create_access_key(UserName=name)["AccessKey"]
        self.keys[name] = {
            "accessKeyId": made["AccessKeyId"],
            "secretAccessKey": made["SecretAccessKey"],
        }
        return self.keys[name]

    def withdraw(self, name: str, keys: Mapping[str, str]) -> None:
        """Deletes access keys."""
        iam = self.client("iam")
        iam.delete_access_key(UserName=name, AccessKeyId=keys["accessKeyId"])
        iam.close()


class Vault:
    """Secret backends as the plugin sees them: what ``value`` is now, and who asked."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self.value = json.dumps(dict(keys))
        self.ttl: float | None = None
        self.failure: Exception | None = None
        self.asked: list[Mapping[str, Any]] = []

    async def resolve(self, reference: Mapping[str, Any]) -> ResolvedSecret:
        self.asked.append(reference)
        if self.failure is not None:
            raise self.failure
        return ResolvedSecret(Secret(self.value), self.ttl)


def _address(output: IO[bytes]) -> str:
    told = b""
    while not (found := _ADDRESS.search(told)):
        line = output.readline()
        assert line, told.decode()
        told += line
    return found.group(1).decode()


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    command = (sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        assert server.stderr is not None
        try:
            world = Store(_address(server.stderr))
            # It goes on telling what it is asked, and would stop when nobody listens.
            threading.Thread(target=server.stderr.read).start()
            world.person("admin", *ADMIN)
            world.person("writer", *WRITER)
            world.person("nobody")
            # From here on every call needs a good signature and a permission.
            httpx.post(f"{world.url}/moto-api/reset-auth", content=b"0", trust_env=False)
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


@pytest.fixture
def bucket(store: Store, request: pytest.FixtureRequest) -> str:
    """A bucket of the test's own."""

    name = f"relay-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:40]}"
    store.make_bucket(name)
    return name


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def vault(store: Store) -> Vault:
    return Vault(store.keys["writer"])


@pytest.fixture
async def context(tmp_path: Path, vault: Vault, clock: FakeClock) -> AsyncIterator[PluginContext]:
    context = plugin_context(tmp_path, plugin="s3", resolve_secret=vault.resolve, clock=clock)
    yield context
    await context.aclose()


@pytest.fixture
def settings(store: Store, bucket: str) -> dict[str, Any]:
    """The section of a sink that works."""
    return {
        "bucket": bucket,
        "region": REGION,
        "endpoint_url": store.url,
        "path_style": True,
        "value_from": {"kind": "vault", "path": "s3"},
        "connect_timeout": 1.0,
        "read_timeout": 5.0,
    }


MakeUsage = Callable[..., S3Usage]
MakePayloads = Callable[..., S3Payloads]
OpenPayloads = Callable[..., Awaitable[S3Payloads]]
Objects = Callable[[], Awaitable[dict[str, bytes]]]


@pytest.fixture
async def make_usage(context: PluginContext, settings: dict[str, Any]) -> AsyncIterator[MakeUsage]:
    """Makes sinks that are closed after the test; arguments change their settings."""
    async with AsyncExitStack() as stack:

        def made(**changed: Any) -> S3Usage:
            sink = S3Usage(S3UsageConfig.model_validate(settings | changed), context)
            stack.push_async_callback(sink.aclose)
            return sink

        yield made


@pytest.fixture
async def make_payloads(
    context: PluginContext, settings: dict[str, Any]
) -> AsyncIterator[MakePayloads]:
    """Makes payload loggers that are closed after the test."""
    async with AsyncExitStack() as stack:

        def made(**changed: Any) -> S3Payloads:
            logger = S3Payloads(S3PayloadsConfig.model_validate(settings | changed), context)
            stack.push_async_callback(logger.aclose)
            return logger

        yield made


@pytest.fixture
def open_payloads(make_payloads: MakePayloads) -> OpenPayloads:
    """The same, opened."""

    async def opened(**changed: Any) -> S3Payloads:
        logger = make_payloads(**changed)
        await logger.aopen()
        return logger

    return opened


@pytest.fixture
def objects(store: Store, bucket: str) -> Objects:
    """Everything in the test's bucket, without blocking the loop."""

    async def found() -> dict[str, bytes]:
        return await asyncio.to_thread(store.objects, bucket)

    return found
