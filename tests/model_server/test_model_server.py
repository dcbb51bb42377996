"""A real model server as upstream: a model of random weights, whose words mean nothing and whose
wire is real."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from relay_gateway.testing.installed import interpreter_with
from relay_gateway.testing.polyglot import Polyglot, SpokenHost

HERE = Path(__file__).parent
LIMIT = 16
START_SECONDS = 60.0
HOST = SpokenHost("openai", ("openai.chat", "openai.embeddings"), "/v1")
SAID: Any = [{"role": "user", "content": "Why is the sky blue?"}]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the server; ``MODEL_SERVER_PYTHON`` names one that has it."""
    home = tmp_path_factory.mktemp("environment")
    return interpreter_with(HERE / "requirements.txt", home, "MODEL_SERVER_PYTHON")


@pytest.fixture(scope="session")
def server(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has loaded the model."""
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    subprocess.run([python, str(HERE / "tiny_model.py"), str(model)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    options += ["--embedding", "true", "--chat_format", "chatml", "--n_ctx", "512"]
    log = (model.parent / "log").open("w+")
    process = subprocess.Popen(
        [python, "-m", "llama_cpp.server", *options], stdout=log, stderr=subprocess.STDOUT
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
        log.close()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "the model server has ended"
        assert time.monotonic() < deadline, "the model server did not start"
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)


@pytest.fixture(scope="session")
def gateway(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    with Polyglot(tmp_path_factory.mktemp("gateway"), {}) as gateway:
        gateway.host("llama", HOST, server)
        gateway.model("tiny", "llama")
        gateway.until_served("tiny")
        yield gateway


@pytest.fixture
def client(gateway: Polyglot) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{gateway.url}/v1", api_key=gateway.relay_key, max_retries=0
    ) as client:
        yield client


def test_chat_completions_pass_whole_and_streamed(gateway: Polyglot, client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=SAID, max_tokens=LIMIT
    )
    answer = raw.parse()
    assert answer.choices[0].finish_reason in ("length", "stop")
    assert answer.usage is not None
    record = gateway.log(raw.headers["x-relay-request-id"])
    assert record["outcome"] == "ok"
    assert record["tokens"]["output"] == answer.usage.completion_tokens
    stream = client.chat.completions.create(
        model="tiny", messages=SAID, max_tokens=LIMIT, stream=True
    )
    chunks = [chunk for chunk in stream if chunk.choices]
    assert len(chunks) > 2
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


def test_messages_are_translated_whole_and_streamed(gateway: Polyglot) -> None:
    with anthropic.Anthropic(
        base_url=gateway.url, api_key=gateway.relay_key, max_retries=0
    ) as client:
        answer = client.messages.create(model="tiny", messages=SAID, max_tokens=LIMIT)
        assert answer.stop_reason in ("max_tokens", "end_turn")
        assert answer.usage.input_tokens > 0
        with client.messages.stream(model="tiny", messages=SAID, max_tokens=LIMIT) as stream:
            last = stream.get_final_message()
        assert last.stop_reason in ("max_tokens", "end_turn")


def test_responses_are_translated_whole_and_streamed(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model="tiny", input="Why?", max_output_tokens=LIMIT, store=False
    )
    assert answer.status in ("incomplete", "completed")
    with client.responses.stream(
        model="tiny", input="Why?", max_output_tokens=LIMIT, store=False
    ) as stream:
        kinds = [event.type for event in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.incomplete", "response.completed")


def test_embeddings_pass(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="tiny", input="blue", encoding_format="float")
    assert len(found.data[0].embedding) > 0


def test_a_caller_that_leaves_ends_the_work_of_the_server(
    gateway: Polyglot, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(
        model="tiny", messages=SAID, max_tokens=400, stream=True
    )
    for _ in stream:
        break
    stream.close()
    again = client.chat.completions.create(model="tiny", messages=SAID, max_tokens=4)
    assert again.choices
