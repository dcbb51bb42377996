"""Applying manifests: planned, checked whole, written once, and nothing the second time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relay_gateway.declarative.catalog import CatalogChangedError
from relay_gateway.declarative.manifests import read_manifests
from relay_gateway.declarative.problems import InvalidManifestsError
from relay_gateway.security.relay_keys import digest
from relay_gateway.storage import AuditLog, EntityChange, NewEntity
from relay_gateway.storage.audit import AuditQuery

if TYPE_CHECKING:
    from .conftest import World

SET = """
kind: relay-key
metadata: {slug: app}
spec: {policyId: all, rateLimitIds: [slow], tags: {team: search}}
---
kind: policy
metadata: {slug: all, labels: {team: search}}
spec: {models: ["*"], rateLimits: [{rateLimitId: slow}]}
---
kind: rate-limit
metadata: {slug: slow}
spec: {rules: [{meter: requests, amount: 10, windowSeconds: 60}]}
---
kind: model
metadata: {slug: big, labels: {team: search}}
spec:
  providerId: acme
  fallbacks: [small]
  bindings:
  - {hostId: east, pricingId: sheet, wireFormats: [fast.chat]}
---
kind: model
metadata: {slug: small, displayName: Small, labels: {team: search}}
spec: {providerId: acme, fallbacks: [big], deprecated: {replacementId: big}}
---
kind: pricing
metadata: {slug: sheet}
spec: {rates: [{meter: tokens.input, amount: 0.15}]}
---
kind: provider
metadata: {slug: acme}
---
kind: host
metadata: {slug: east}
spec: {baseUrl: "http://127.0.0.1:9", adapter: fast, adapterConfig: {region: us}}
"""
KEY = """
---
kind: host-key
metadata: {slug: key}
spec: {hostId: east, policyId: all, valueFrom: {kind: box, value: {fromEnv: EAST_KEY}}}
"""


async def refused(world: World, text: str) -> list[str]:
    with pytest.raises(InvalidManifestsError) as refusal:
        await world.plan(text)
    return [line.removeprefix("standard input:") for line in str(refusal.value).splitlines()]


async def test_a_set_in_any_order_with_a_circle_is_one_write(world: World) -> None:
    before = await world.store.revision()
    plan = await world.apply(SET)
    assert plan.count("create") == len(plan.steps) == 8
    assert await world.store.revision() == before + 1
    big, small = [await world.store.get("model", slug) for slug in ("big", "small")]
    assert big.spec["fallbacks"] == [small.id]
    assert small.spec["deprecated"]["replacementId"] == big.id
    assert {row.managed_by for row in (await world.store.load()).rows} == {"file"}


async def test_a_second_time_changes_and_writes_nothing(world: World) -> None:
    world.environ["EAST_KEY"] = "sk-one"
    await world.apply(SET + KEY)
    before = await world.store.revision()
    plan = await world.apply(SET + KEY)
    assert (plan.steps, plan.unchanged) == ((), 9)
    assert await world.store.revision() == before


async def test_planning_writes_nothing(world: World) -> None:
    await world.plan(SET)
    assert await world.store.is_empty()
    assert await world.store.revision() == 0


async def test_changes_are_told_field_by_field_in_slugs(local: World) -> None:
    await local.apply(SET)
    plan = await local.plan(
        SET.replace("fallbacks: [small]", "fallbacks: []").replace("amount: 10", "amount: 20")
    )
    told = {(s.slug, c.field, c.before, c.after) for s in plan.steps for c in s.changes}
    assert told == {
        ("slow", "spec.rules[0].amount", 10, 20),
        ("big", "spec.fallbacks[0]", "small", None),
    }


async def test_what_is_left_out_becomes_the_default_again(local: World) -> None:
    await local.apply(SET)
    plan = await local.apply(SET.replace(", adapterConfig: {region: us}", ""))
    (change,) = plan.steps[0].changes
    assert (change.field, change.before, change.after) == ("spec.adapterConfig.region", "us", "eu")


async def test_references_may_be_ids_and_lead_into_the_catalog(local: World) -> None:
    await local.apply(SET)
    acme = await local.store.get("provider", "acme")
    await local.apply(
        f"kind: model\nmetadata: {{slug: third}}\nspec: {{providerId: {acme.id.upper()}, "
        "fallbacks: [big]}"
    )
    third = await local.store.get("model", "third")
    assert third.spec["providerId"] == acme.id


async def test_every_offending_field_of_every_document_is_told_at_once(local: World) -> None:
    text = (
        SET.replace("policyId: all", "policyId: none")
        .replace("amount: 10,", "amount: many,")
        .replace("wireFormats: [fast.chat]", "wireFormats: [slow.chat]")
        .replace("fallbacks: [big]", "name: big")
        .replace("region: us", "region: mars")
        .replace("tokens.input", "tokens.inptu")
        .replace("tags: {team: search}", "tags: 5, prefix: x")
    )
    fields = [line.split(": ")[:3] for line in await refused(local, text)]
    assert [(entity, field) for _, entity, field in fields] == [
        ("relay key app", "spec.policyId"),
        ("relay key app", "spec.prefix"),
        ("relay key app", "spec.tags"),
        ("rate limit slow", "spec.rules[0].amount"),
        ("model big", "spec.bindings[0].wireFormats[0]"),
        ("pricing sheet", "spec.rates[0].meter"),
        ("host east", "spec.adapterConfig.region"),
    ]


async def test_names_that_others_have_are_told_before_anything_is_written(local: World) -> None:
    await local.apply(SET)
    text = "kind: model\nmetadata: {slug: third}\nspec:\n  providerId: acme\n  aliases: [x, big]\n"
    (line,) = await refused(local, text)
    assert line.startswith("5: model third: spec.aliases[1]: the model 'big' already answers")


async def test_a_wrong_document_keeps_all_others_out(local: World) -> None:
    await refused(local, SET + "---\nkind: host\nmetadata: {slug: bad}\nspec: {adapter: fast}\n")
    assert await local.store.is_empty()


async def test_a_credential_comes_from_a_variable_and_is_never_shown(local: World) -> None:
    local.environ["EAST_KEY"] = "sk-canary-one"
    plan = await local.apply(SET + KEY)
    row = await local.store.get("host key", "key")
    assert row.sealed["valueFrom"]["reversed"] == "sk-canary-one"[::-1]
    local.environ["EAST_KEY"] = "sk-canary-two"
    changed = await local.apply(SET + KEY)
    (step,) = changed.steps
    assert [change.field for change in step.changes] == ["spec.valueFrom"]
    assert "canary" not in repr((plan, changed))
    log = await AuditLog(local.engine).page(AuditQuery(limit=1))
    assert "canary" not in repr(log)


async def test_a_reference_without_its_value_keeps_the_stored_one(local: World) -> None:
    local.environ["EAST_KEY"] = "sk-one"
    await local.apply(SET + KEY)
    plan = await local.apply(SET + KEY.replace(", value: {fromEnv: EAST_KEY}", ""))
    assert plan.steps == ()


async def test_a_credential_that_cannot_be_had_is_told_with_its_field(local: World) -> None:
    (line,) = await refused(local, SET + KEY)
    assert "host key key: spec.valueFrom.value: the variable EAST_KEY is not set" in line
    own = KEY.replace("EAST_KEY", "RELAY_MASTER_KEY")
    local.environ["RELAY_MASTER_KEY"] = "never-sealed"
    (line,) = await refused(local, SET + own)
    assert "is a variable of the gateway itself" in line
    (line,) = await refused(local, SET + KEY.replace("fromEnv: EAST_KEY", "fromFile: /missing"))
    assert "the file /missing cannot be read" in line


async def test_a_file_holds_no_credential_but_may_name_one_beside_it(
    local: World, tmp_path: Path
) -> None:
    path = tmp_path / "key.yaml"
    path.write_text(SET + KEY.replace("{fromEnv: EAST_KEY}", "sk-plain"))
    with pytest.raises(InvalidManifestsError, match="which a file should not hold") as refusal:
        await local.catalog.plan(read_manifests([str(path)]))
    assert "sk-plain" not in str(refusal.value)
    (tmp_path / "secret.txt").write_text("sk-beside\n")
    path.write_text(SET + KEY.replace("fromEnv: EAST_KEY", "fromFile: secret.txt"))
    plan = await local.catalog.plan(read_manifests([str(path)]))
    (row,) = [step.after for step in plan.steps if step.after and step.kind == "host key"]
    assert row.sealed["valueFrom"]["reversed"] == "sk-beside"[::-1]


async def test_t08_keys_are_not_sent_elsewhere_without_saying_so(local: World) -> None:
    local.environ["EAST_KEY"] = "sk-one"
    await local.apply(SET + KEY)
    moved = (SET + KEY).replace("127.0.0.1:9", "127.0.0.2:9")
    (line,) = await refused(local, moved)
    assert "host east: spec: sends host keys elsewhere (key); --confirm-rebind" in line
    assert (await local.apply(moved, rebind=True)).count("update") == 1


async def test_a_new_relay_key_has_a_plaintext_and_an_old_one_keeps_its_own(local: World) -> None:
    plan = await local.apply(SET)
    plaintext = plan.minted["app"]
    row = await local.store.get("relay key", "app")
    assert row.sealed["digest"] == digest(plaintext.reveal())
    again = await local.apply(SET.replace("tags: {team: search}", "tags: {team: x}"))
    assert again.count("update") == 1
    assert again.minted == {}
    assert (await local.store.get("relay key", "app")).sealed == row.sealed
    assert plaintext.reveal() not in repr(plan)


async def test_a_relay_key_can_be_declared_by_its_digest(local: World) -> None:
    known = "ab" * 32
    key = f"key: {{digest: {known}, prefix: sk-relay-abcdefg}}, policyId: all"
    declared = SET.replace("policyId: all", key)
    plan = await local.apply(declared)
    assert plan.minted == {}
    row = await local.store.get("relay key", "app")
    assert (row.sealed["digest"], row.spec["prefix"]) == (known, "sk-relay-abcdefg")
    assert (await local.apply(declared)).steps == ()


async def test_t76_a_revoked_key_is_not_revived_by_a_file(local: World) -> None:
    await local.apply(SET)
    ended = SET.replace("policyId: all", "revokedAt: 2026-01-01T00:00:00Z, policyId: all")
    await local.apply(ended)
    row = await local.store.get("relay key", "app")
    assert row.spec["revokedAt"] == "2026-01-01T00:00:00Z"
    assert (await local.apply(SET)).steps == ()
    assert (await local.store.get("relay key", "app")).spec == row.spec


async def test_pruning_takes_what_is_selected_managed_by_files_and_not_declared(
    world: World,
) -> None:
    await world.apply(SET)
    await world.store.create(
        NewEntity(
            kind="provider", slug="mine", display_name="M", spec={}, labels={"team": "search"}
        )
    )
    kept = SET.replace("fallbacks: [big], deprecated: {replacementId: big}", "fallbacks: []")
    without_big = "---".join(part for part in kept.split("---") if "slug: big" not in part)
    plan = await world.apply(without_big, prune={"team": "search"})
    assert [(step.action, step.slug) for step in plan.steps] == [
        ("update", "small"),
        ("delete", "big"),
    ]
    assert (await world.store.get("provider", "mine")).managed_by == "api"


async def test_what_is_still_referred_to_is_not_pruned(local: World) -> None:
    await local.apply(SET)
    rest = "---".join(part for part in SET.split("---") if "slug: all" not in part)
    only_limits = "---".join(part for part in rest.split("---") if "slug: slow" in part)
    with pytest.raises(InvalidManifestsError, match="is still referenced by relay key app"):
        await local.plan(only_limits, prune={"team": "search"})


async def test_t58_a_plan_that_others_overtook_is_made_anew_or_given_up(local: World) -> None:
    await local.apply(SET)
    text = SET.replace("amount: 10", "amount: 20")
    plan = await local.plan(text)
    row = await local.store.get("rate limit", "slow")
    other = EntityChange(display_name="Other", spec=row.spec)
    await local.store.update("rate limit", row.id, other)
    with pytest.raises(CatalogChangedError):
        await local.catalog.carry_out(plan, lambda: local.plan(text))
    assert (await local.store.get("rate limit", "slow")).display_name == "Other"
    same = await local.plan(text)
    back = EntityChange(display_name="Other", spec=row.spec)
    await local.store.update("rate limit", row.id, back)
    await local.catalog.carry_out(same, lambda: local.plan(text))
    assert (await local.store.get("rate limit", "slow")).spec["rules"][0]["amount"] == 20


async def test_t59_each_entity_is_audited_at_the_one_revision(world: World) -> None:
    await world.apply(SET)
    log = AuditLog(world.engine)
    records = await log.page(AuditQuery(limit=100))
    assert {record.revision for record in records} == {1}
    assert {record.method for record in records} == {"command"}
    assert len(records) == 8
    assert (await log.verify()).problem is None
