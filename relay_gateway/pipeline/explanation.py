"""What an explanation consists of; see :mod:`relay_gateway.pipeline.explain`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

StepName = Literal[
    "relay-key", "policy", "model", "grants", "hosts", "budgets", "limits", "host-keys"
]
Effect = Literal["grant", "deny"]
Stop = Literal[
    "pinned-elsewhere", "not-granted", "wire-format", "no-host-key", "benched", "limited", "ejected"
]


class Step(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is decided about a request, in order. ``ok`` is false where it stops the
    request or would; of budgets and limits, each of which has a step of its own, also where one
    that only warns has nothing left."""

    step: StepName
    ok: bool
    message: str


class ReferenceMatch(msgspec.Struct, frozen=True, rename="camel"):
    """A reference of the policy that means the model, and the slugs of the hosts it means it
    at. A deny wins over any grant."""

    reference: str
    effect: Effect
    model: str
    hosts: tuple[str, ...]


class KeyLimit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule that the requests of a host key are held to. ``remaining`` of ``amount`` is left, all
    of it again after ``resetSeconds``; both are ``null`` where the state store cannot be asked.
    ``ok`` is false where nothing is left: unless the rule only reports, the next key is drawn."""

    rule: str
    amount: int
    remaining: int | None
    reset_seconds: float | None
    shadow: bool
    ok: bool
    message: str


class KeyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A host key that the policy may draw, as this process knows it. ``secondsLeft`` is how long a
    bench lasts, ``lastError`` why its credential could not be had the last time, ``limits`` what is
    left of the limits of its own policy."""

    id: str
    slug: str
    priority: int
    weight: int
    state: Literal["available", "benched"]
    reason: str | None
    seconds_left: float | None
    last_error: str | None
    limits: tuple[KeyLimit, ...] = ()


class CandidateView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A host that serves the model or one of its fallbacks, in the order of trying.

    ``upstreamName`` is what the model is called there, ``wireFormats`` how the host can be asked.
    ``stoppedBy`` says why it is not asked, absent when it may be.
    """

    model: str
    host_id: str
    host: str
    adapter: str
    upstream_name: str
    priority: int
    weight: int
    wire_formats: tuple[str, ...]
    no_auth: bool
    translated_to: str | None
    stopped_by: Stop | None
    message: str
    host_keys: tuple[KeyView, ...]


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """A binding of the model that no request can use, and why."""

    host: str
    reason: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What becomes of the request.

    A routed one is sent to one of ``hosts`` first; what it is answered is up to the host. A
    refused one is answered ``status`` with ``body``, in the dialect of its endpoint.
    """

    verdict: Literal["routed", "refused"]
    message: str
    hosts: tuple[str, ...] = ()
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    body: Any = None


class AskedFor(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The request that is explained, with what was not given filled in."""

    model: str
    relay_key: str
    endpoint: str
    wire_format: str
    host: str | None
    client_ip: str | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a request would be routed, or why it would be refused, at one revision of the catalog.

    Benched keys are those of the process that answers.
    """

    revision: int
    request: AskedFor
    outcome: Outcome
    steps: tuple[Step, ...]
    references: tuple[ReferenceMatch, ...]
    candidates: tuple[CandidateView, ...]
    left_out: tuple[LeftOut, ...] = ()


class UserView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A policy that grants a model: at which hosts, whether one of them has a host key that it may
    draw, and the relay keys that have the policy (the first 20 by slug, and how many)."""

    policy_id: str
    policy: str
    hosts: tuple[str, ...]
    callable: bool
    relay_keys: tuple[str, ...]
    relay_key_count: int


class Users(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who may use a model; ``nextCursor`` leads to further policies."""

    revision: int
    model: str
    policies: tuple[UserView, ...]
    next_cursor: str | None = None
