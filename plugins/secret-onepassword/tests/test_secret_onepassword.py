"""What the 1Password backend reads, and how it words what it cannot read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import RowBinding, SecretRef
from relay_gateway.testing.conformance.silence import assert_silent, wording
from relay_gateway.testing.script import Script, response
from relay_gateway.testing.upstream import ScriptedUpstream
from relay_gateway_secret_onepassword import (
    OnePasswordConfig,
    OnePasswordRef,
    OnePasswordSecrets,
    relay_register_secret_backends,
)
from relay_gateway_secret_onepassword.connect import MAX_BODY
from relay_gateway_secret_onepassword.testing import FakeItem, new_id

BINDING = RowBinding("host key", "0190a0b0-0000-7000-8000-000000000001", "valueFrom", 1)
CANARY = "canary-5f1c9e7d2b"
TOKEN = "access-token-canary-4a5b6c7d8e9f"
URL = "http://127.0.0.1:8080"


def ref(**members: str) -> OnePasswordRef:
    return OnePasswordRef.model_validate(
        {"vault": "Models", "item": "Acme", "field": "credential"} | members
    )


@pytest.fixture
def item(connect: Any) -> FakeItem:
    made: FakeItem = connect.vault("Models").add("Acme")
    made.set("credential", CANARY)
    return made


@pytest.fixture
async def backend(connect: Any, make: Any, item: FakeItem) -> OnePasswordSecrets:
    opened: OnePasswordSecrets = make(connect.url)
    await opened.aopen()
    return opened


async def test_a_field_is_found_by_names(backend: OnePasswordSecrets) -> None:
    resolved = await backend.resolve(ref(), BINDING)
    assert resolved.value.matches(CANARY)
    assert resolved.version == "2"
    assert resolved.ttl is None


async def test_a_field_is_found_by_ids_with_one_request(
    connect: Any, backend: OnePasswordSecrets, item: FakeItem
) -> None:
    connect.requests.clear()
    by_id = ref(vault=connect.vaults[0].id, item=item.id, field=item.fields[0]["id"])
    assert (await backend.resolve(by_id, BINDING)).value.matches(CANARY)
    assert connect.requests == [f"/v1/vaults/{connect.vaults[0].id}/items/{item.id}"]


@pytest.mark.parametrize("title", ['with "quotes"', "back\\slash", "a & b = c?#/%", "schlüssel"])
async def test_any_title_can_be_asked_for(
    connect: Any, backend: OnePasswordSecrets, title: str
) -> None:
    connect.vaults[0].add(title).set("credential", "of-the-odd-title")
    resolved = await backend.resolve(ref(item=title), BINDING)
    assert resolved.value.matches("of-the-odd-title")


async def test_a_section_tells_fields_of_one_name_apart(
    backend: OnePasswordSecrets, item: FakeItem
) -> None:
    item.set("key", "of-production", section="Production")
    item.set("key", "of-staging", section="Staging")
    resolved = await backend.resolve(ref(field="key", section="Staging"), BINDING)
    assert resolved.value.matches("of-staging")
    by_id = ref(field="key", section=item.sections[0]["id"])
    assert (await backend.resolve(by_id, BINDING)).value.matches("of-production")
    with pytest.raises(SecretDeniedError, match=r"has 2 fields.*tell the section") as caught:
        await backend.resolve(ref(field="key"), BINDING)
    assert "of-staging" not in wording(caught.value)
    with pytest.raises(SecretNotFoundError, match="the item is there"):
        await backend.resolve(ref(field="credential", section="Staging"), BINDING)


async def test_titles_and_vaults_of_one_name_are_refused(
    connect: Any, backend: OnePasswordSecrets
) -> None:
    connect.vaults[0].add("Acme")
    with pytest.raises(SecretDeniedError, match=r"has 2 of item 'Acme'.*by its id"):
        await backend.resolve(ref(), BINDING)
    connect.vault("Models")
    with pytest.raises(SecretDeniedError, match="has 2 of vault 'Models'"):
        await backend.resolve(ref(), BINDING)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"vault": "Other"}, "no vault 'Other'"),
        ({"item": "Other"}, "no item 'Other' of vault 'Models'"),
        ({"field": "other"}, "no field 'Models/Acme/other'"),
        ({"vault": new_id()}, "404"),
        ({"item": new_id()}, "404"),
    ],
)
async def test_what_is_missing_is_named(
    backend: OnePasswordSecrets, members: dict[str, str], told: str
) -> None:
    with pytest.raises(SecretNotFoundError, match=told):
        await backend.resolve(ref(**members), BINDING)


async def test_an_empty_field_is_not_found(backend: OnePasswordSecrets, item: FakeItem) -> None:
    item.fields[0]["value"] = ""
    with pytest.raises(SecretNotFoundError, match="is empty"):
        await backend.resolve(ref(), BINDING)
    del item.fields[0]["value"]
    with pytest.raises(SecretNotFoundError, match="is empty"):
        await backend.resolve(ref(), BINDING)


@pytest.mark.parametrize("value", [f"{CANARY}\r\nX-Other: 1", f"{CANARY}\t", "schlüssel"])
async def test_t22_a_value_that_is_no_header_value_is_refused_without_being_shown(
    backend: OnePasswordSecrets, item: FakeItem, value: str
) -> None:
    item.set("credential", value)
    with pytest.raises(SecretDeniedError, match="cannot be a host key") as caught:
        await backend.resolve(ref(), BINDING)
    assert_silent(CANARY, {"error": wording(caught.value)})


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, SecretDeniedError),
        (401, SecretDeniedError),
        (403, SecretDeniedError),
        (404, SecretNotFoundError),
        (429, SecretUnavailableError),
        (500, SecretUnavailableError),
        (503, SecretUnavailableError),
    ],
)
async def test_each_status_has_its_meaning(
    connect: Any, backend: OnePasswordSecrets, status: int, expected: type[SecretError]
) -> None:
    connect.status = status
    with pytest.raises(expected, match=str(status)) as caught:
        await backend.resolve(ref(), BINDING)
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    "answer",
    [
        response(200, b"<html>a proxy's page</html>"),
        response(200, b'{"vaults": 5}'),
        response(200, b"[" + b" " * (2 * MAX_BODY) + b"]"),
    ],
)
async def test_an_answer_of_another_shape_or_size_counts_as_none(make: Any, answer: Script) -> None:
    async with ScriptedUpstream(lambda _: answer) as upstream:
        with pytest.raises(SecretUnavailableError, match="was not 1Password Connect"):
            await make(upstream.url).aopen()


async def test_t05_a_redirect_is_not_followed(make: Any, connect: Any) -> None:
    there = response(302, b"", (("Location", connect.url),))
    async with ScriptedUpstream(lambda _: there) as upstream:
        with pytest.raises(SecretDeniedError, match="302"):
            await make(upstream.url).aopen()
    assert connect.requests == []


async def test_t11_the_access_token_is_never_shown(
    connect: Any, make: Any, item: FakeItem, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    backend = make(connect.url)
    await backend.resolve(ref(), BINDING)
    connect.token = "another"
    with pytest.raises(SecretDeniedError, match="check the token") as caught:
        await backend.resolve(ref(), BINDING)
    shown = {"error": wording(caught.value), "log": caplog.text, "config": repr(backend.config)}
    assert_silent(TOKEN, shown)


async def test_the_token_comes_from_the_section_a_file_or_the_environment(
    connect: Any, make: Any, item: FakeItem, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    for backend in (
        make(connect.url, {}, token=TOKEN),
        make(connect.url, token_file=str(file)),
        make(connect.url, {"OP_CONNECT_TOKEN": TOKEN}),
    ):
        assert (await backend.resolve(ref(), BINDING)).value.matches(CANARY)
    connect.token = "the-next-token"
    file.write_text("the-next-token")
    again = make(connect.url, token_file=str(file))
    assert (await again.resolve(ref(), BINDING)).value.matches(CANARY)


async def test_t12_a_token_of_the_environment_is_withdrawn_from_it_once_it_is_in_use(
    connect: Any, make: Any
) -> None:
    withdrawn: list[str] = []
    backend = make(connect.url, {"OP_CONNECT_TOKEN": TOKEN})
    backend.context.withdraw = withdrawn.append
    await backend.aopen()
    await backend.aopen()
    assert set(withdrawn) == {"OP_CONNECT_TOKEN"}


async def test_without_a_token_it_says_where_one_could_be(make: Any, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for backend, where in (
        (make(URL, {}), "in OP_CONNECT_TOKEN"),
        (make(URL, token_file=missing), f"in {missing}"),
    ):
        with pytest.raises(SecretDeniedError, match=where):
            await backend.aopen()


async def test_the_lifetime_of_values_can_be_configured(
    connect: Any, make: Any, item: FakeItem
) -> None:
    assert (await make(connect.url, ttl_seconds=60).resolve(ref(), BINDING)).ttl == 60


async def test_a_reference_of_another_kind_is_refused(make: Any) -> None:
    class Other(SecretRef):
        kind: str = "other"

    with pytest.raises(SecretRefError, match="is not one to 1Password"):
        await make(URL).resolve(Other(), BINDING)


def test_installing_it_costs_no_import_of_the_http_client() -> None:
    code = "import sys, relay_gateway_secret_onepassword; print({'httpx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_it_registers_one_backend() -> None:
    assert list(relay_register_secret_backends()) == [OnePasswordSecrets]


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, "url"),
        ({"url": "connect:8080"}, "url"),
        ({"url": f"http://x:{CANARY}@127.0.0.1"}, "url"),
        ({"url": URL, "tokn": CANARY}, "tokn"),
        ({"url": URL, "timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_a_bad_section_names_the_key_and_shows_no_secret(
    section: dict[str, Any], told: str
) -> None:
    with pytest.raises(ValidationError, match=told) as caught:
        OnePasswordConfig.model_validate(section)
    assert CANARY not in str(caught.value)


def test_every_member_of_a_reference_is_described_for_a_form() -> None:
    members = OnePasswordRef.model_json_schema(by_alias=True)["properties"]
    assert set(members) == {"kind", "vault", "item", "field", "section"}
    assert all(member.get("description") for name, member in members.items() if name != "kind")
