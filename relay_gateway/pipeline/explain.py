"""How a request would be routed, step by step, decided by the code that routes requests.

Nothing is called, drawn or benched. Where a request is refused, it is by the same exception.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec

from relay_gateway.catalog.compile import granted_model
from relay_gateway.catalog.grants import GrantCompiler
from relay_gateway.catalog.snapshot import Host, Model, Policy, RelayKey, Snapshot
from relay_gateway.errors import RequestRefusedError
from relay_gateway.limits.choose import in_memory
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.authenticate import check_relay_key, unauthorized
from relay_gateway.pipeline.breaker import HostBreakers
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.drawable import Drawable, Rooms
from relay_gateway.pipeline.explanation import (
    AskedFor,
    CandidateView,
    Effect,
    Explanation,
    Outcome,
    ReferenceMatch,
    Step,
    StepName,
    Stop,
    Users,
    UserView,
)
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.nothing_left import no_way_left
from relay_gateway.pipeline.route import (
    Obstacle,
    Plan,
    Speak,
    Weighed,
    find,
    granted_fallbacks,
    in_force,
    is_usable,
    make_plan,
    untranslated,
    weigh,
)
from relay_gateway.plugin.context import SystemClock
from relay_gateway.plugin.wire import Problem
from relay_gateway.registry.plugins import ServedEndpoint

SHOWN_KEYS = 20
_STOPS: dict[Obstacle, tuple[Stop, str]] = {
    Obstacle.PIN: ("pinned-elsewhere", "the request asks for another host"),
    Obstacle.GRANT: ("not-granted", "the policy does not grant the model at this host"),
    Obstacle.FORMAT: ("wire-format", "the host cannot be asked in the format of the endpoint"),
    Obstacle.KEYS: ("no-host-key", "no host key that the policy may draw may serve the model"),
}


class Question(msgspec.Struct, frozen=True):
    """A request to explain. ``key`` is ``None`` for one that no request can come with, for the
    reason ``unknown``; without an ``address`` a key with a list of networks is taken to be used
    from the first of them."""

    model: str
    served: ServedEndpoint
    slug: str
    key: RelayKey | None
    unknown: str = ""
    pin: str | None = None
    address: str | None = None

    def call(self, snapshot: Snapshot, model: Model) -> Call:
        """The request, as it is when its budgets and limits are asked."""
        served = self.served
        call = Call(served.endpoint, served.wire_format, snapshot, self.caller_address())
        call.relay_key, call.model = self.key, model
        if self.key is not None:
            call.policy, call.tags = snapshot.policy_of(self.key), self.key.tags
        return call

    def caller_address(self) -> str:
        """From where the request comes."""
        if self.address is None and self.key is not None and self.key.networks:
            return str(self.key.networks[0].network_address)
        return self.address or ""


class _Trace(msgspec.Struct):
    """What was found on the way, as far as it went."""

    compiler: GrantCompiler
    steps: list[Step] = msgspec.field(default_factory=list)
    references: list[ReferenceMatch] = msgspec.field(default_factory=list)
    weighed: list[Weighed] = msgspec.field(default_factory=list)
    rooms: Rooms = msgspec.field(default_factory=dict)

    def passed(self, step: StepName, message: str) -> None:
        self.steps.append(Step(step, True, message))

    def stopped(self, step: StepName, message: str) -> None:
        self.steps.append(Step(step, False, message))


class Explainer:
    """Explains requests to one process's catalog, whose key states it reads."""

    def __init__(
        self,
        pools: KeyPools,
        credentials: Credentials,
        now: Callable[[], float] = time.time,
        speak: Speak = untranslated,
        breakers: HostBreakers | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._breakers = breakers or HostBreakers(SystemClock())
        self._admission = admission or Admission(in_memory())
        self._speak = speak
        self._pools = pools
        self._drawable = Drawable(pools, credentials, self._breakers)
        self._now = now
        self._compiled: tuple[Snapshot, GrantCompiler] | None = None

    async def explain(self, snapshot: Snapshot, question: Question) -> Explanation:
        """What would become of the request."""
        if self._compiled is None or self._compiled[0] is not snapshot:
            # In a thread, because it takes time with the number of models.
            self._compiled = snapshot, await asyncio.to_thread(_compiler, snapshot)
        return await self._explain(snapshot, question, self._compiled[1])

    async def _explain(
        self, snapshot: Snapshot, question: Question, compiler: GrantCompiler
    ) -> Explanation:
        trace = _Trace(compiler)
        try:
            plan = self._walk(snapshot, question, trace)
            call = question.call(snapshot, plan.model)
            open_to_it = [one.candidate for one in trace.weighed if one.obstacle is None]
            trace.rooms = await self._admission.room_of_keys(call, open_to_it)
            await self._afford(call, plan, trace)
            outcome = self._routed(plan, trace)
        except RequestRefusedError as error:
            outcome = _refused(error, question.served)
        return Explanation(
            revision=snapshot.revision,
            request=AskedFor(
                model=question.model,
                relay_key=question.slug,
                endpoint=question.served.endpoint.name,
                wire_format=question.served.wire_format.name,
                host=question.pin,
                client_ip=question.address,
            ),
            outcome=outcome,
            steps=tuple(trace.steps),
            references=tuple(trace.references),
            candidates=tuple(self._view(found, trace) for found in trace.weighed),
        )

    def _walk(self, snapshot: Snapshot, question: Question, trace: _Trace) -> Plan:
        key = self._admit(question, trace)
        policy = snapshot.policy_of(key)
        if policy is None:
            trace.stopped("policy", "the policy of the key is disabled or cannot be loaded")
        else:
            trace.passed("policy", f"the policy is {policy.slug!r}")
        model, pinned = _find(snapshot, question, trace)
        model = self._in_force(snapshot, model, trace)
        wire_format = question.served.wire_format.name
        if policy is not None:
            self._weigh(snapshot, policy, model, wire_format, pinned, trace)
        try:
            plan = make_plan(snapshot, policy, model, wire_format, pinned, self._speak)
        except RequestRefusedError as error:
            trace.stopped("grants" if error.code == "model_not_allowed" else "hosts", error.message)
            raise
        hosts = {one.binding.host.slug for group in plan.groups for one in group}
        trace.passed("grants", "the policy grants the model")
        trace.passed("hosts", f"it may be asked for at {', '.join(sorted(hosts))}")
        return plan

    async def _afford(self, call: Call, plan: Plan, trace: _Trace) -> None:
        """Looks at budgets and limits; raises what the first of them that is used up refuses
        with, after all were looked at."""
        found = await self._admission.standing(call, plan)
        for one in found:
            trace.steps.append(Step(one.step, one.ok, one.message))
        for one in found:
            if one.refusal is not None:
                raise one.refusal

    def _in_force(self, snapshot: Snapshot, model: Model, trace: _Trace) -> Model:
        serving = in_force(snapshot, model, self._now())
        if serving is not model:
            trace.passed("model", f"{model.name!r} has ended and is served by {serving.name!r}")
        return serving

    def _admit(self, question: Question, trace: _Trace) -> RelayKey:
        try:
            if question.key is None:
                raise unauthorized()
            check_relay_key(question.key, question.caller_address(), self._now())
        except RequestRefusedError as error:
            trace.stopped("relay-key", question.unknown or error.message)
            raise
        assumed = bool(question.key.networks) and question.address is None
        trace.passed(
            "relay-key",
            "the key is valid; its address is taken to be one that it may be used from"
            if assumed
            else "the key is valid",
        )
        return question.key

    def _weigh(
        self,
        snapshot: Snapshot,
        policy: Policy,
        model: Model,
        wire_format: str,
        pinned: Host | None,
        trace: _Trace,
    ) -> None:
        for one in (model, *granted_fallbacks(snapshot, policy, model)):
            trace.references += _references(snapshot, policy, one, trace.compiler)
            trace.weighed += weigh(snapshot, policy, one, wire_format, pinned, self._speak)

    def _routed(self, plan: Plan, trace: _Trace) -> Outcome:
        groups = (self._drawable.ready(group, trace.rooms) for group in plan.groups)
        first = next(filter(None, groups), None)
        if first is None:
            no_room = self._drawable.no_room(plan, trace.rooms)
            refusal = no_room or no_way_left(plan, self._pools, self._breakers)
            trace.stopped("host-keys", refusal.message)
            raise refusal
        trace.passed("host-keys", "there is a host key to draw, or none is needed")
        # Weight 0 comes last among equals.
        drawn = [one for one in first if one.binding.weight] or first
        hosts = tuple(sorted({one.binding.host.slug for one in drawn}))
        return Outcome(
            verdict="routed", message=f"the request is sent to {' or '.join(hosts)}", hosts=hosts
        )

    def _view(self, found: Weighed, trace: _Trace) -> CandidateView:
        candidate = found.candidate
        binding, host = candidate.binding, candidate.binding.host
        stop: tuple[Stop, str] | None
        if found.obstacle is not None:
            stop = _STOPS[found.obstacle]
        else:
            stop = self._drawable.obstacle(candidate, trace.rooms)
        return CandidateView(
            model=candidate.model.name,
            host_id=host.id,
            host=host.slug,
            adapter=host.adapter,
            upstream_name=binding.upstream_name,
            priority=binding.priority,
            weight=binding.weight,
            wire_formats=tuple(sorted(binding.wire_formats)),
            translated_to=candidate.speech.wire_format.name if candidate.speech else None,
            no_auth=host.no_auth,
            stopped_by=stop[0] if stop else None,
            message=stop[1] if stop else "it may be asked",
            host_keys=tuple(
                self._drawable.view(candidate, key, trace.rooms) for key in candidate.keys
            ),
        )


def users_of(snapshot: Snapshot, model: Model, after: str, limit: int) -> Users:
    """The policies with ids after ``after`` that grant ``model``, at most ``limit`` of them."""
    granting = sorted(
        (policy for policy in snapshot.policies.values() if policy.grants.hosts(model.id)),
        key=lambda policy: policy.id,
    )
    found = [policy for policy in granting if policy.id > after]
    page = found[:limit]
    keys = _keys_by_policy(snapshot, {policy.id for policy in page})
    return Users(
        revision=snapshot.revision,
        model=model.name,
        policies=tuple(_user_view(snapshot, model, one, keys[one.id]) for one in page),
        next_cursor=page[-1].id if len(found) > limit else None,
    )


def _keys_by_policy(
    snapshot: Snapshot, policies: set[str]
) -> defaultdict[str, dict[str, RelayKey]]:
    keys: defaultdict[str, dict[str, RelayKey]] = defaultdict(dict)
    for presented in snapshot.relay_keys.values():
        if presented.key.policy_id in policies:
            keys[presented.key.policy_id][presented.key.id] = presented.key
    return keys


def _user_view(
    snapshot: Snapshot, model: Model, policy: Policy, keys: dict[str, RelayKey]
) -> UserView:
    slugs = sorted(key.slug for key in keys.values())
    return UserView(
        policy_id=policy.id,
        policy=policy.slug,
        hosts=_slugs(snapshot, policy.grants.hosts(model.id) or ()),
        callable=is_usable(snapshot, policy, model),
        relay_keys=tuple(slugs[:SHOWN_KEYS]),
        relay_key_count=len(slugs),
    )


def _find(snapshot: Snapshot, question: Question, trace: _Trace) -> tuple[Model, Host | None]:
    try:
        model, pinned = find(snapshot, question.model, question.pin)
    except RequestRefusedError as error:
        trace.stopped("model", error.message)
        raise
    way = _way(snapshot, question.model, model)
    where = f", at host {pinned.slug!r} only" if pinned is not None else ""
    trace.passed("model", f"{question.model!r} means the model {model.name!r} by its {way}{where}")
    return model, pinned


def _way(snapshot: Snapshot, name: str, model: Model) -> str:
    if name == model.name:
        return "name"
    if name == f"{model.provider_slug}/{model.name}":
        return "provider and name"
    if name in snapshot.models:
        return "alias"
    base, at, _ = name.rpartition("@")
    return "name and a host" if at and base in snapshot.models else "pattern"


def _compiler(snapshot: Snapshot) -> GrantCompiler:
    slugs = {host.slug: host.id for host in snapshot.hosts.values()}
    return GrantCompiler(map(granted_model, snapshot.models_by_id.values()), slugs)


def _references(
    snapshot: Snapshot, policy: Policy, model: Model, compiler: GrantCompiler
) -> Iterator[ReferenceMatch]:
    effects: tuple[tuple[Effect, Sequence[str]], ...] = (
        ("grant", policy.models),
        ("deny", policy.deny),
    )
    for effect, references in effects:
        for reference in references:
            hosts = compiler.reach(reference, model.id)
            if hosts:
                yield ReferenceMatch(reference, effect, model.name, _slugs(snapshot, hosts))


def _slugs(snapshot: Snapshot, host_ids: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(snapshot.hosts[host_id].slug for host_id in host_ids))


def _refused(error: RequestRefusedError, served: ServedEndpoint) -> Outcome:
    problem = Problem(error.status, error.code, error.message, error.param)
    status, body = served.wire_format.dialect().error(problem)
    return Outcome(
        verdict="refused",
        message=error.message,
        status=status,
        code=error.code,
        retry_after=error.retry_after,
        body=cast("object", msgspec.json.decode(body)),
    )
