"""What somebody sees who starts the gateway for the first time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from relay_gateway.testing.canary import Canary
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.scenario import Scenario
from relay_gateway.testing.script import json_response
from relay_gateway.testing.upstream import ScriptedUpstream


async def minted(gateway: GatewayProcess) -> str:
    """A relay key from the command that ``serve`` suggests."""
    code, out, _ = await gateway.run("keys", "create", "my-application", "--json")
    assert code == 0
    plaintext: str = json.loads(out)["plaintext"]
    return plaintext


def client_of(gateway: GatewayProcess, key: str) -> openai.AsyncOpenAI:
    url = f"{gateway.inference_url}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=key, max_retries=0)


async def seconds_of_imports() -> float:
    """What a new process takes to load some of what the gateway loads: how fast the machine is."""
    began = time.monotonic()
    loading = "import fastapi, sqlalchemy.ext.asyncio"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", loading)
    assert await process.wait() == 0
    return time.monotonic() - began


async def test_a_start_without_configuration_answers_within_two_seconds(tmp_path: Path) -> None:
    imports = await seconds_of_imports()
    began = time.monotonic()
    async with GatewayProcess(tmp_path) as gateway:
        async with httpx.AsyncClient(trust_env=False) as outside:
            answered = await outside.get(f"{gateway.inference_url}/readyz")
        took = time.monotonic() - began
        assert answered.status_code == 200
        # The promise is 2 s on an idle machine, where these imports take a third of a second; twice
        # that says that something is wrong.
        assert took < max(4, 10 * imports)
        key = await minted(gateway)
        async with client_of(gateway, key) as client:
            said: Any = [{"role": "user", "content": "Hello"}]
            stream = await client.chat.completions.create(model="echo", messages=said, stream=True)
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert "Hello" in text
        assert (gateway.data_dir / "admin-token").stat().st_mode & 0o777 == 0o600
        assert gateway.data_dir.stat().st_mode & 0o777 == 0o700
        for path in gateway.data_dir.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path
        assert str(gateway.data_dir / "admin-token") in gateway.stdout
        assert gateway.admin_token not in gateway.stdout + gateway.stderr
        assert await gateway.stop() == 0


async def test_well_known_variables_become_host_keys_and_real_models_answer(
    tmp_path: Path,
) -> None:
    canary = Canary()
    secret = canary.secret("provider key", prefix="sk-")
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }
    async with (
        ScriptedUpstream(lambda _: json_response(200, answer)) as upstream,
        GatewayProcess(tmp_path, {"OPENAI_API_KEY": secret}) as gateway,
        gateway.control() as admin,
    ):
        scenario = Scenario(gateway, admin, upstream, canary)
        keys = (await admin.get("/host-keys")).json()["items"]
        assert [key["spec"]["valueFrom"] for key in keys] == [
            {"kind": "env", "env": "OPENAI_API_KEY"}
        ]
        host = (await admin.get("/hosts/openai")).json()
        host["spec"]["baseUrl"] = upstream.url
        url = f"/hosts/by-id/{host['metadata']['id']}?confirmRebind=true"
        moved = await admin.put(url, json={"metadata": host["metadata"], "spec": host["spec"]})
        assert moved.status_code == 200, moved.text
        async with client_of(gateway, await minted(gateway)) as client:
            models = [model.id async for model in client.models.list()]
            said: Any = [{"role": "user", "content": "Hi"}]
            raw = await client.chat.completions.with_raw_response.create(
                model="gpt-4o-mini", messages=said
            )
        assert "gpt-4o-mini" in models
        assert not any(name.startswith("claude") for name in models)
        record = await scenario.log(raw.headers["x-relay-request-id"])
        assert record["costNanos"] > 0
        assert record["unpriced"] is False
        assert upstream.ledger[0].header("authorization") == f"Bearer {secret}"
        await scenario.sweep()


async def test_a_second_start_finds_everything_as_it_was(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        key = await minted(gateway)
        before = {path.name for path in gateway.data_dir.iterdir()}
        token = gateway.admin_token
    async with GatewayProcess(tmp_path) as gateway:
        assert gateway.admin_token == token
        assert before <= {path.name for path in gateway.data_dir.iterdir()}
        async with client_of(gateway, key) as client:
            assert [model async for model in client.models.list()]


async def test_keys_can_be_rotated_revoked_and_listed_from_the_command_line(
    tmp_path: Path,
) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        first = await minted(gateway)
        code, out, _ = await gateway.run("keys", "rotate", "my-application", "--json")
        assert code == 0
        second = json.loads(out)["plaintext"]
        await until_status(gateway, first, 401)
        await until_status(gateway, second, 200)
        code, out, _ = await gateway.run("keys", "list", "--json")
        assert [key["metadata"]["slug"] for key in json.loads(out)] == ["my-application"]
        assert second not in out
        assert (await gateway.run("keys", "revoke", "my-application"))[0] == 0
        await until_status(gateway, second, 401)
        code, _, err = await gateway.run("keys", "revoke", "nobody")
        assert code == 1
        assert "nobody" in err
        assert "Traceback" not in err


async def until_status(gateway: GatewayProcess, key: str, wanted: int) -> None:
    """Waits for a write of another process to be enforced; it has one second."""
    headers = {"authorization": f"Bearer {key}"}
    deadline = time.monotonic() + 1.5
    async with httpx.AsyncClient(base_url=gateway.inference_url, trust_env=False) as client:
        while (await client.get("/v1/models", headers=headers)).status_code != wanted:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def test_the_demo_prints_a_call_that_works(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path, command="demo") as gateway:
        await gateway.until_printed("flush=True)")
        start = gateway.stdout.index("curl -N")
        command = gateway.stdout[start : gateway.stdout.index("\n\n", start)]
        process = await asyncio.create_subprocess_shell(
            command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        out, _ = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 0
        assert b"Hello" in out
        assert out.rstrip().endswith(b"data: [DONE]")


async def test_a_port_in_use_is_said_in_one_line(tmp_path: Path) -> None:
    async with GatewayProcess(tmp_path) as gateway:
        port = gateway.inference_url.rpartition(":")[2]
        second = GatewayProcess(tmp_path, {"RELAY_PORT": port})
        with pytest.raises(AssertionError) as failed:
            await second.start()
        assert f"port {port}" in str(failed.value)
        assert "Traceback" not in str(failed.value)


def test_help_imports_no_vendor_sdk() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "relay_gateway.cli.main", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    heavy = {
        "cryptography",
        "sqlalchemy",
        "fastapi",
        "boto3",
        "hvac",
        "redis",
        "openai",
        "anthropic",
    }
    assert "typer" in imported
    assert not heavy & imported
