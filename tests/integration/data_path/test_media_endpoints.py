"""The endpoints around text, asked by the official client: forms, recordings, images, streams."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from relay_gateway.plugin import PluginConfig, UpstreamProvider, UsageRecord
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.script import json_response, response, sse_event, sse_response
from relay_gateway.testing.upstream import ScriptedUpstream
from relay_gateway_provider_gemini import GeminiProvider
from relay_gateway_provider_openai import OpenAIProvider
from relay_gateway_provider_openai.media_formats import SpeechFormat

RECORDING = bytes(range(256)) * 700
PICTURE = b"\x89PNG\r\n\x1a\n--" + RECORDING
IMAGE_USAGE = {
    "input_tokens": 50,
    "output_tokens": 60,
    "total_tokens": 110,
    "input_tokens_details": {"text_tokens": 10, "image_tokens": 40},
}


class World:
    """The gateway with one model at the scripted upstream, and a client of it."""

    def __init__(self, upstream: ScriptedUpstream, path: DataPath) -> None:
        self.upstream = upstream
        self.path = path
        self.url = f"http://127.0.0.1:{path.port}"
        self.client = openai.AsyncOpenAI(
            api_key=path.relay_key, base_url=f"{self.url}/v1", max_retries=0
        )
        self.http = httpx.AsyncClient(headers={"authorization": f"Bearer {path.relay_key}"})

    @property
    def record(self) -> UsageRecord:
        """The only one."""
        (record,) = self.path.records
        return record


@asynccontextmanager
async def running(
    directory: Path, provider: type[UpstreamProvider[Any]] = OpenAIProvider, **changes: Any
) -> AsyncIterator[World]:
    made = provider(PluginConfig(), plugin_context(directory))
    async with ScriptedUpstream() as upstream:
        hosts = {"m": f"{upstream.url}/v1"}
        async with DataPath(directory, hosts, provider=made, **changes) as path:
            world = World(upstream, path)
            async with world.client, world.http:
                yield world
        assert upstream.malformed == []


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path, upstream_names={"m": "vendor/m-large"}) as made:
        yield made


async def test_transcription_of_a_recording_reaches_the_upstream_as_it_was_sent(
    world: World,
) -> None:
    usage = {"type": "duration", "seconds": 9}
    world.upstream.enqueue(json_response(200, {"text": "Hello", "usage": usage}))
    heard = await world.client.audio.transcriptions.create(
        model="m", file=("a.mp3", RECORDING), prompt="m", temperature=0.5
    )
    assert heard.text == "Hello"
    (seen,) = world.upstream.ledger
    assert seen.target == "/v1/audio/transcriptions"
    assert RECORDING in seen.body
    assert b'name="model"\r\n\r\nvendor/m-large\r\n' in seen.body
    assert b'name="prompt"\r\n\r\nm\r\n' in seen.body
    assert (seen.header("content-type") or "").startswith("multipart/form-data; boundary=")
    assert seen.header("content-length") == str(len(seen.body))
    record = world.record
    assert (record.endpoint, record.requested_model) == ("audio.transcriptions", "m")
    assert (record.units, record.usage_source) == ({"audioSeconds": 9}, "upstream")
    assert (record.streamed, record.outcome) == (False, "ok")


async def test_streamed_transcription_is_asked_for_in_the_form(world: World) -> None:
    done = {
        "type": "transcript.text.done",
        "text": "Hello",
        "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 2, "total_tokens": 16},
    }
    events: list[dict[str, Any]] = [{"type": "transcript.text.delta", "delta": "Hello"}, done]
    world.upstream.enqueue(sse_response([sse_event(event) for event in events]))
    stream = await world.client.audio.transcriptions.create(
        model="m", file=("a.mp3", RECORDING), stream=True
    )
    assert [event.type async for event in stream] == [event["type"] for event in events]
    assert world.record.streamed
    assert world.record.tokens == {"input": 14, "output": 2}
    assert world.record.ttft_ms is not None


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the client says so of it
async def test_translation_as_plain_text_is_passed_on_and_has_no_usage(world: World) -> None:
    world.upstream.enqueue(response(200, b"1\n00:00 Hello\n", [("content-type", "text/plain")]))
    told = await world.client.audio.translations.create(
        model="m", file=("a.mp3", RECORDING), response_format="srt"
    )
    assert told == "1\n00:00 Hello\n"
    assert (world.record.endpoint, world.record.usage_source) == ("audio.translations", "none")


async def test_speech_is_a_recording_and_its_characters_are_an_estimate(world: World) -> None:
    world.upstream.enqueue(response(200, RECORDING, [("content-type", "audio/mpeg")]))
    spoken = await world.client.audio.speech.create(model="m", voice="alloy", input="Grüße")
    assert spoken.content == RECORDING
    assert spoken.response.headers["content-type"] == "audio/mpeg"
    assert json.loads(world.upstream.ledger[0].body)["model"] == "vendor/m-large"
    assert (world.record.units, world.record.usage_source) == ({"characters": 5}, "estimated")


async def test_failed_speech_is_billed_for_nothing(world: World) -> None:
    world.upstream.enqueue(json_response(400, {"error": {"message": "no such voice"}}))
    with pytest.raises(openai.BadRequestError, match="no such voice"):
        await world.client.audio.speech.create(model="m", voice="alloy", input="Hello")
    assert (world.record.units, world.record.usage_source) == ({}, "none")


async def test_format_that_cannot_tell_what_is_asked_costs_no_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        SpeechFormat, "asked_units", lambda _format, _body: {"characters": int("?")}
    )
    world.upstream.enqueue(response(200, RECORDING, [("content-type", "audio/mpeg")]))
    spoken = await world.client.audio.speech.create(model="m", voice="alloy", input="Hello")
    assert spoken.content == RECORDING
    assert (world.record.units, world.record.usage_source) == ({}, "none")
    assert "cannot be told" in caplog.text


async def test_streamed_speech_has_the_usage_of_its_last_event(world: World) -> None:
    usage = {"input_tokens": 4, "output_tokens": 30, "total_tokens": 34}
    events: list[dict[str, Any]] = [
        {"type": "speech.audio.delta", "audio": "UklGRg=="},
        {"type": "speech.audio.done", "usage": usage},
    ]
    world.upstream.enqueue(sse_response([sse_event(event) for event in events]))
    asking = world.client.audio.speech.with_streaming_response.create(
        model="m", voice="alloy", input="Hello", stream_format="sse"
    )
    async with asking as spoken:
        assert b"speech.audio.done" in await spoken.read()
    record = world.record
    assert (record.streamed, record.usage_source) == (True, "upstream")
    assert (record.tokens, record.units) == ({"input": 4, "output": 30}, {})


async def test_f47_streamed_speech_that_fails_in_its_first_event_is_no_200(world: World) -> None:
    failing = sse_event({"type": "error", "error": {"message": "all voices are busy"}})
    world.upstream.enqueue(*(sse_response([failing]) for _ in range(4)))
    with pytest.raises(openai.InternalServerError, match="all voices are busy"):
        await world.client.audio.speech.create(
            model="m", voice="alloy", input="Hello", stream_format="sse"
        )
    assert world.record.outcome == "upstream_error"


async def test_f35_streamed_speech_without_an_event_is_no_answer(world: World) -> None:
    world.upstream.enqueue(sse_response([]))
    with pytest.raises(openai.InternalServerError) as failed:
        await world.client.audio.speech.create(
            model="m", voice="alloy", input="Hello", stream_format="sse"
        )
    assert failed.value.status_code == 502


async def test_several_embeddings_of_a_model_with_another_name_at_its_host(tmp_path: Path) -> None:
    async with running(tmp_path, GeminiProvider, upstream_names={"m": "embed-2"}) as world:
        world.upstream.enqueue(json_response(200, {"embeddings": [{"values": [1.0]}] * 2}))
        asked = [{"model": "models/m", "content": {"parts": [{"text": word}]}} for word in "ab"]
        url = f"{world.url}/v1beta/models/m:batchEmbedContents"
        answer = await world.http.post(url, json={"requests": asked})
        assert answer.status_code == 200
        (seen,) = world.upstream.ledger
    assert seen.target.endswith("/models/embed-2:batchEmbedContents")
    # The API wants the same name in each request as in the path.
    assert seen.json()["requests"] == [one | {"model": "models/embed-2"} for one in asked]


async def test_images_are_made_and_metered_by_their_tokens(world: World) -> None:
    answer = {"created": 1, "data": [{"b64_json": "aGk="}], "usage": IMAGE_USAGE}
    world.upstream.enqueue(json_response(200, answer))
    made = await world.client.images.generate(model="m", prompt="a cat")
    assert made.data is not None
    assert made.data[0].b64_json == "aGk="
    assert (world.record.endpoint, world.record.units) == ("images.generations", {})
    assert world.record.tokens == {"input": 50, "output": 60}


async def test_images_are_edited_in_a_form_and_streamed(world: World) -> None:
    events: list[dict[str, Any]] = [
        {"type": "image_edit.partial_image", "b64_json": "aGk=", "partial_image_index": 0},
        {"type": "image_edit.completed", "b64_json": "aGk=", "usage": IMAGE_USAGE},
    ]
    script = sse_response([sse_event(event, event=str(event["type"])) for event in events])
    world.upstream.enqueue(script)
    stream = await world.client.images.edit(
        model="m",
        image=[("a.png", PICTURE), ("b.png", PICTURE)],
        prompt="a hat",
        stream=True,
        partial_images=1,
    )
    assert [event.type async for event in stream] == [event["type"] for event in events]
    assert world.upstream.ledger[0].body.count(PICTURE) == 2
    assert (world.record.endpoint, world.record.streamed) == ("images.edits", True)
    assert world.record.tokens == {"input": 50, "output": 60}


async def test_images_are_edited_by_links_in_json_too(world: World) -> None:
    world.upstream.enqueue(json_response(200, {"created": 1, "data": [{}, {}]}))
    body = {"model": "m", "prompt": "a hat", "images": [{"image_url": "https://a.test/1.png"}]}
    answer = await world.http.post(f"{world.url}/v1/images/edits", json=body)
    assert answer.status_code == 200
    assert json.loads(world.upstream.ledger[0].body) == {**body, "model": "vendor/m-large"}
    assert world.record.units == {"images": 2}


async def test_moderations_and_reranking_are_passed_on(world: World) -> None:
    world.upstream.enqueue(
        json_response(200, {"id": "modr-1", "model": "m", "results": []}),
        json_response(200, {"results": [], "meta": {"billed_units": {"search_units": 2}}}),
    )
    judged = await world.client.moderations.create(model="m", input="Hello")
    assert judged.id == "modr-1"
    body = {"model": "m", "query": "?", "documents": ["a", "b"]}
    ranked = await world.http.post(f"{world.url}/v1/rerank", json=body)
    assert ranked.json()["results"] == []
    assert [seen.target for seen in world.upstream.ledger] == ["/v1/moderations", "/v1/rerank"]
    moderated, reranked = world.path.records
    assert (moderated.endpoint, moderated.usage_source) == ("moderations", "none")
    assert (reranked.endpoint, reranked.units) == ("rerank", {"searches": 2})


@pytest.mark.parametrize(
    ("path", "content_type", "wanted"),
    [
        ("/v1/audio/transcriptions", "application/json", "multipart/form-data"),
        ("/v1/audio/transcriptions", None, "multipart/form-data"),
        ("/v1/images/edits", "text/plain", "application/json or multipart/form-data"),
        ("/v1/audio/speech", "multipart/form-data; boundary=b", "application/json"),
    ],
)
async def test_body_of_another_kind_is_refused_with_the_right_one(
    world: World, path: str, content_type: str | None, wanted: str
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await world.http.post(f"{world.url}{path}", content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"]["message"] == f"the body of this endpoint must be {wanted}"


async def test_t33_form_with_two_models_is_refused_before_anyone_is_asked(world: World) -> None:
    with pytest.raises(openai.BadRequestError, match="more than once") as refused:
        await world.client.audio.transcriptions.create(
            model="m", file=("a.mp3", RECORDING), extra_body={"Model": "dear"}
        )
    assert refused.value.code == "ambiguous_body"
    assert world.upstream.ledger == []
    assert world.record.outcome == "rejected"


async def test_unknown_model_of_a_form_is_told_as_one_of_json_is(world: World) -> None:
    with pytest.raises(openai.NotFoundError, match="no model is called 'other'"):
        await world.client.audio.transcriptions.create(model="other", file=("a.mp3", b"a"))


async def test_deployments_are_asked_with_their_version_and_an_api_key(tmp_path: Path) -> None:
    config = {"deployments": True, "apiVersion": "2024-10-21", "credentialHeader": "api-key"}
    async with running(tmp_path, adapterConfig=config, upstream_names={"m": "dep/1"}) as world:
        world.upstream.enqueue(
            json_response(200, {"text": "Hello"}),
            json_response(200, {"id": "resp_1", "object": "response", "output": []}),
        )
        await world.client.audio.transcriptions.create(model="m", file=("a.mp3", b"a"))
        await world.client.responses.create(model="m", input="Hello")
        heard, asked = world.upstream.ledger
    transcribe = "/v1/deployments/dep%2F1/audio/transcriptions?api-version=2024-10-21"
    assert (heard.target, asked.target) == (transcribe, "/v1/responses?api-version=2024-10-21")
    for seen in (heard, asked):
        assert seen.header("api-key") == "sk-m"
        assert seen.header("authorization") is None


@pytest.mark.parametrize("takes", [True, False])
async def test_stream_options_are_kept_from_hosts_that_do_not_take_them(
    tmp_path: Path, *, takes: bool
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    last = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [sse_event({**chunk, "choices": [last], "usage": usage}), sse_event("[DONE]")]
    async with running(tmp_path, adapterConfig={"streamUsage": takes}) as world:
        world.upstream.enqueue(sse_response(events))
        stream = await world.client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hello"}], stream=True
        )
        assert len([one async for one in stream]) == 1
        assert ("stream_options" in json.loads(world.upstream.ledger[0].body)) is takes
        assert world.record.tokens == {"input": 3, "output": 1}


async def test_models_are_listed_where_gemini_clients_ask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with running(tmp_path, GeminiProvider) as world:
        listed = await world.http.get(f"{world.url}/v1beta/models?pageSize=50")
        one = await world.http.get(f"{world.url}/v1beta/models/m")
        none = await world.http.get(f"{world.url}/v1beta/models/other")
        unknown = await world.http.post(f"{world.url}/v1beta/models/m:predict")
        wrong = await world.http.delete(f"{world.url}/v1beta/models")
    assert [model["name"] for model in listed.json()["models"]] == ["models/m"]
    assert one.json()["name"] == "models/m"
    assert (none.status_code, none.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert (unknown.status_code, wrong.status_code) == (404, 405)
    assert "GET /v1beta/models/{id}" in unknown.json()["error"]["message"]


async def test_batches_of_embeddings_are_passed_on(tmp_path: Path) -> None:
    answer = {"embeddings": [{"values": [0.5]}], "usageMetadata": {"promptTokenCount": 4}}
    asked = {"requests": [{"model": "models/m", "content": {"parts": [{"text": "Hello"}]}}]}
    async with running(tmp_path, GeminiProvider) as world:
        world.upstream.enqueue(json_response(200, answer))
        url = f"{world.url}/v1beta/models/m:batchEmbedContents"
        assert (await world.http.post(url, json=asked)).json() == answer
        (seen,) = world.upstream.ledger
        assert seen.target == "/v1/models/m:batchEmbedContents"
        assert world.record.tokens == {"input": 4}
