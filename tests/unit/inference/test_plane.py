"""Every request at the inference address is answered by the right part, in the right dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.http.addresses import AddressReader
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import HeaderReader
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.plugin import Dialect, ListedModel, Problem
from relay_gateway.registry import ServedEndpoint
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.world import PREFIXES, PipelineWorld, json_answer


class Shouting(Dialect):
    """A dialect of its own, told by a header."""

    name = "shouting"

    def claims(self, header_names: frozenset[bytes] | set[bytes]) -> bool:
        return b"x-shout" in header_names

    def error(self, problem: Problem) -> tuple[int, bytes]:
        return problem.status, problem.code.upper().encode()

    def models(self, models: Sequence[ListedModel]) -> bytes:
        return ",".join(model.name for model in models).upper().encode()


class Plane:
    """The inference plane over the pipeline of a small world."""

    def __init__(self, directory: Path) -> None:
        self.world = PipelineWorld(directory)
        self.world.draft.rows[1].spec["pathPrefix"] = "acme"
        self.world.publish()
        wire_format = PlainFormat()
        self.plane = self.make(
            self.world.live, ServedEndpoint(wire_format.endpoints[0], wire_format)
        )

    def make(self, live: LiveCatalog, *endpoints: ServedEndpoint) -> InferencePlane:
        return InferencePlane(
            live,
            self.world.pipeline,
            Authenticator(PREFIXES),
            AnswerWriter("X-Relay-", {"plain": self.world.provider}),
            HeaderReader(PREFIXES),
            AddressReader([]),
            endpoints,
            [Dialect(), Shouting()],
            self.world.proxy(),
        )

    async def ask(
        self, method: str, path: str, *fields: tuple[bytes, bytes], key: bool = True
    ) -> FakeCaller:
        bearer = b"Bearer " + self.world.relay_key.plaintext.reveal().encode()
        caller = FakeCaller(
            method,
            path,
            headers=[*([(b"authorization", bearer)] if key else []), *fields],
            body=b'{"model":"m"}',
        )
        work = self.plane.handle(caller)
        if work is not None:
            await work
        await caller.wait_for_end()
        return caller


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    return Plane(tmp_path)


def code_of(caller: FakeCaller) -> Any:
    return json.loads(caller.body)["error"]["code"]


@pytest.mark.parametrize("path", ["/v1/plain", "/acme/v1/plain"])
async def test_an_endpoint_answers_with_and_without_a_hosts_prefix(plane: Plane, path: str) -> None:
    plane.world.client.replies = [json_answer()]
    caller = await plane.ask("POST", path)
    assert (caller.status, caller.body) == (200, b"3:5")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/plain/", "/other/v1/plain", "/acme/acme/v1/plain", "/hosts"]
)
async def test_t55_what_does_not_exist_is_404_with_the_list_of_what_does(
    plane: Plane, path: str
) -> None:
    caller = await plane.ask("POST", path)
    assert (caller.status, code_of(caller)) == (404, "unknown_endpoint")
    assert b"POST /v1/plain" in caller.body


async def test_a_wrong_method_is_405_with_the_right_one(plane: Plane) -> None:
    caller = await plane.ask("GET", "/v1/plain")
    assert (caller.status, code_of(caller)) == (405, "method_not_allowed")
    assert caller.answer_headers.get(b"allow") == b"POST"
    assert (await plane.ask("DELETE", "/v1/models")).status == 405


async def test_health_is_public_and_readiness_follows_snapshot_and_draining(plane: Plane) -> None:
    assert (await plane.ask("GET", "/healthz", key=False)).status == 200
    assert (await plane.ask("GET", "/readyz", key=False)).status == 200
    plane.plane.draining = True
    assert (await plane.ask("GET", "/readyz", key=False)).status == 503
    assert (await plane.ask("GET", "/healthz", key=False)).status == 200


async def test_f01_before_the_first_snapshot_nobody_is_told_that_his_key_is_wrong(
    plane: Plane,
) -> None:
    wire_format = PlainFormat()
    endpoint = ServedEndpoint(wire_format.endpoints[0], wire_format)
    plane.plane = plane.make(LiveCatalog(), endpoint)
    caller = await plane.ask("POST", "/v1/plain")
    assert (caller.status, code_of(caller)) == (503, "not_ready")
    assert caller.answer_headers.get(b"retry-after") == b"1"
    models = await plane.ask("GET", "/v1/models")
    assert (models.status, code_of(models)) == (503, "not_ready")


async def test_models_are_listed_in_the_dialect_of_the_request(plane: Plane) -> None:
    caller = await plane.ask("GET", "/v1/models")
    assert [model["id"] for model in json.loads(caller.body)["data"]] == ["m"]
    assert (await plane.ask("GET", "/v1/models", (b"X-Shout", b"1"))).body == b"M"
    assert (await plane.ask("GET", "/acme/v1/models")).status == 200
    assert (await plane.ask("GET", "/v1/models", key=False)).status == 401


async def test_one_model_is_shown_by_any_of_its_names(plane: Plane) -> None:
    for name in ("m", "acme%2Fm", "acme/m"):
        caller = await plane.ask("GET", f"/v1/models/{name}")
        assert json.loads(caller.body)["id"] == "m"
    caller = await plane.ask("GET", "/v1/models/nobody", (b"x-shout", b"1"))
    assert (caller.status, caller.body) == (404, b"MODEL_NOT_FOUND")


@pytest.mark.parametrize(
    "field",
    [(b"Content-Type", b"text/plain"), (b"Content-Encoding", b"gzip"), (b"Content-Type", b"")],
)
async def test_t30_bodies_of_another_kind_are_415(plane: Plane, field: tuple[bytes, bytes]) -> None:
    caller = await plane.ask("POST", "/v1/plain", field)
    assert (caller.status, code_of(caller)) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "kind", [b"application/json", b"Application/JSON; charset=utf-8", b"application/x+json"]
)
async def test_json_by_any_of_its_names_is_accepted(plane: Plane, kind: bytes) -> None:
    plane.world.client.replies = [json_answer()]
    assert (await plane.ask("POST", "/v1/plain", (b"content-type", kind))).status == 200
