"""Every metric there is: its name, its labels and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

DURATION_MS = (5, 25, 100, 250, 500, 1000, 2500, 5000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000)  # fmt: skip  # noqa: E501
FIRST_TOKEN_MS = (50, 100, 200, 350, 500, 750, 1000, 1500, 2500, 5000, 10_000, 20_000, 40_000)
OVERHEAD_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1000)
LAG_MS = (1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000)


class FamilyKind(StrEnum):
    """The type that Prometheus is told."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True):
    """One metric.

    Of a family that is ``per_process`` every process has series of its own, told apart by a last
    label ``process``; of any other the series of all processes are added up. ``bounds_ms`` are the
    upper bounds of a histogram's buckets in milliseconds; it is exposed in seconds.
    """

    name: str
    kind: FamilyKind
    help: str
    labels: tuple[str, ...] = ()
    per_process: bool = False
    bounds_ms: tuple[float, ...] = ()

    @property
    def exposed_labels(self) -> tuple[str, ...]:
        """The names of the labels in the order in which values are given, ``process`` included."""
        return (*self.labels, "process") if self.per_process else self.labels

    @property
    def lasts(self) -> bool:
        """Whether what an ended process has counted stays in the sum."""
        return self.kind is not FamilyKind.GAUGE and not self.per_process


def _counter(name: str, text: str, *labels: str) -> Family:
    return Family(name, FamilyKind.COUNTER, text, labels)


def _histogram(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Family:
    return Family(name, FamilyKind.HISTOGRAM, text, labels, bounds_ms=bounds)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(name, FamilyKind.GAUGE, text, labels)


def _own(name: str, text: str, *labels: str) -> Family:
    return Family(name, FamilyKind.GAUGE, text, labels, per_process=True)


REQUESTS = _counter(
    "relay_requests_total",
    "Inference requests that have ended, refused ones included.",
    "endpoint", "model", "host", "outcome",
)  # fmt: skip
REQUEST_ERRORS = _counter(
    "relay_request_errors_total",
    "Inference requests that did not end well, by the code of their usage record.",
    "code",
)
DURATION = _histogram(
    "relay_request_duration_seconds",
    "From the head of a request to the end of its answer.",
    DURATION_MS, "endpoint", "model", "host",
)  # fmt: skip
FIRST_TOKEN = _histogram(
    "relay_time_to_first_token_seconds",
    "From the head of a streamed request to the first token of its answer.",
    FIRST_TOKEN_MS, "endpoint", "model", "host",
)  # fmt: skip
OVERHEAD = _histogram(
    "relay_overhead_seconds",
    "Time that requests spent in the gateway itself, before the upstream was asked and after its "
    "last byte.",
    OVERHEAD_MS, "endpoint",
)  # fmt: skip
TOKENS = _counter(
    "relay_tokens_total",
    "Metered tokens, as upstreams report them; `input` and `output` contain their parts, such as "
    "`cacheRead` and `reasoning`.",
    "model", "host", "meter",
)  # fmt: skip
COST = _counter(
    "relay_cost_total",
    "What priced requests cost, in units of the pricing's currency.",
    "model", "host", "currency",
)  # fmt: skip
UNPRICED = _counter(
    "relay_unpriced_requests_total",
    "Requests with a metered figure that no price is known for.",
    "model", "host",
)  # fmt: skip
ATTEMPTS = _counter(
    "relay_upstream_attempts_total",
    "Times that an upstream was asked, by what came of it: `ok`, the verdict on its refusal, or "
    "the reason why there was no answer.",
    "host", "result",
)  # fmt: skip
IN_FLIGHT = _own("relay_requests_in_flight", "Requests that are being worked on.")
CONNECTIONS = _own("relay_connections", "Open connections of callers to the inference plane.")

LIMIT_DECISIONS = _counter(
    "relay_limit_decisions_total",
    "Requests that met a rule of a rate limit: `allowed`, `refused`, `shadow` (a shadow rule would "
    "have refused it), or `lost` (the state store could not be asked).",
    "rule", "decision",
)  # fmt: skip
STATE_STORE_UP = _own(
    "relay_state_store_up",
    "Whether the state store of limits is asked (1), or left alone because it cannot be.",
    "store",
)

BUDGET_REFUSALS = _counter(
    "relay_budget_refusals_total",
    "Requests that were refused because a budget was used up.",
    "scope",
)
BUDGET_MARKS = _counter(
    "relay_budget_marks_total",
    "Times that a process has found a budget used up to 80 or 100 percent, once for each of them "
    "in each period.",
    "scope", "percent",
)  # fmt: skip

KEYS_BENCHED = _gauge(
    "relay_host_key_benched",
    "In how many processes a host key is left out of its pool right now.",
    "host", "host_key",
)  # fmt: skip
HOSTS_EJECTED = _gauge(
    "relay_host_ejected",
    "In how many processes a host is left alone right now, because it failed again and again; also "
    "while a single request tries it.",
    "host",
)
EJECTIONS = _counter(
    "relay_host_ejections_total",
    "Times that a host was left alone, because it failed again and again.",
    "host",
)
RETRIES = _counter(
    "relay_retries_total",
    "Attempts after a failure that the budget of retries let through (`made`) or not (`denied`).",
    "result",
)
AFFINITY = _counter(
    "relay_prompt_affinity_total",
    "Answered requests with a prompt worth caching, by whether they went to the host key that had "
    "served the last one of their conversation (`hit`), to another (`moved`), or were the first "
    "(`new`).",
    "result",
)
SECRET_FETCHES = _counter(
    "relay_secret_fetches_total",
    "Times that a secret backend was asked for a credential: `ok` or `error`.",
    "backend", "result",
)  # fmt: skip

USAGE_QUEUE = _gauge(
    "relay_usage_queue_records", "Usage records that a sink has not taken yet.", "sink"
)
USAGE_DROPPED = _counter(
    "relay_usage_dropped_records_total",
    "Usage records that were given up because the spool was full.",
    "sink",
)

PAYLOADS = _counter(
    "relay_payloads_total",
    "Payloads of requests that opted in, by what came of them: `captured`, `dropped` (no memory "
    "for them, or the gateway ended) or `withheld` (they could not be redacted).",
    "result",
)
PAYLOAD_MEMORY = _own(
    "relay_payload_memory_bytes", "What payloads that are being captured hold right now."
)

PAYLOAD_QUEUE = _gauge(
    "relay_payload_queue_records", "Payloads that a logger has not taken yet, of all loggers."
)
PAYLOAD_DROPPED = _counter(
    "relay_payload_dropped_records_total",
    "Payloads that were given up because the spool was full, of all loggers.",
)
DELIVERY_RETRIES = _counter(
    "relay_delivery_retries_total",
    "Batches that a sink did not take, by what it takes (usage or payload).",
    "stream",
    "sink",
)
DELIVERY_SET_ASIDE = _counter(
    "relay_delivery_set_aside_total",
    "Records that a sink refused while it took others, kept in a file instead.",
    "stream",
    "sink",
)
DELIVERY_DOWN = _own(
    "relay_delivery_sink_down", "1 while a sink takes nothing and is tried again.", "stream", "sink"
)
DELIVERY_OLDEST = _own(
    "relay_delivery_oldest_seconds",
    "Age of the oldest usage record that waits in memory for a sink.",
    "sink",
)
SPOOL_BYTES = _gauge(
    "relay_spool_bytes", "Bytes of records that wait in files, adopted ones included.", "stream"
)
SPOOL_RESERVE = _gauge(
    "relay_spool_reserve_records",
    "Usage records that are in memory only, because the disk does not take them.",
)
SPOOL_FAILURES = _counter(
    "relay_spool_write_failures_total", "Files of the spool that were given up.", "stream"
)
SPOOL_DAMAGED = _counter(
    "relay_spool_damaged_total", "Places in files of the spool that could not be read.", "stream"
)
SPOOL_LOST = _counter(
    "relay_spool_lost_records_total",
    "Records that neither the disk nor the memory had room for.",
    "stream",
)

SNAPSHOT_REVISION = _own("relay_snapshot_revision", "Revision of the catalog that is served.")
SNAPSHOT_AGE = _own(
    "relay_snapshot_age_seconds",
    "Time since the served catalog was last known to be what the database has.",
)
SNAPSHOT_LAG = _own(
    "relay_snapshot_lag_revisions",
    "By how many revisions the served catalog is behind the newest one that was heard of.",
)
SNAPSHOT_FAILURES = _counter(
    "relay_snapshot_failures_total",
    "Times that the catalog could not be read anew, and the last good one stayed: "
    "`database_unavailable`, `timeout` or `build_failed`.",
    "reason",
)
CATALOG_SOURCE = _own(
    "relay_catalog_source",
    "1 for where the served catalog is from: `database`, `disk` or `none`.",
    "source",
)
DATABASE_UP = _own(
    "relay_catalog_database_up", "Whether the catalog could be read at the last look (1) or not."
)
QUARANTINED = _own(
    "relay_quarantined_entities", "Entities that had to be left out of the catalog.", "kind"
)
READY = _own("relay_ready", "Whether the process has a catalog to serve and is not ending (1).")

PLUGIN_FAILURES = _counter(
    "relay_plugin_failures_total",
    "Failures of a plugin that requests or batches ran into.",
    "kind", "plugin",
)  # fmt: skip
PLUGIN_CALLS = _counter(
    "relay_plugin_calls_total",
    "Calls of a plugin: attempts at hosts of an upstream provider, and of any other kind the calls "
    "that were awaited (a batch written, a credential resolved, a reservation).",
    "kind", "plugin",
)  # fmt: skip
GUARD_DECISIONS = _counter(
    "relay_guard_decisions_total",
    "What guards did (`allowed`, `changed`, `refused`, `failed`, `unreadable`: there was nothing "
    "that they could read) with requests, whole answers and streams; on a dry run, what they would "
    "have done.",
    "guard", "phase", "decision", "dry_run",
)  # fmt: skip
PLUGIN_SECONDS = _counter(
    "relay_plugin_call_seconds_total",
    "How long awaited calls of a plugin took together.",
    "kind", "plugin",
)  # fmt: skip
PLUGIN_STALLS = _counter(
    "relay_plugin_stalls_total",
    "Times that code of a plugin held up the event loop for more than half a second; `-` for code "
    "of no plugin.",
    "kind", "plugin",
)  # fmt: skip
PLUGIN_STATE = _gauge(
    "relay_plugin_state",
    "In how many processes a plugin is in this state; states that it is not in have no series.",
    "kind", "plugin", "state",
)  # fmt: skip

LOOP_LAG = Family(
    "relay_event_loop_lag_seconds",
    FamilyKind.HISTOGRAM,
    "By how much a timer of the event loop came late, four times a second.",
    per_process=True,
    bounds_ms=LAG_MS,
)
LOOP_TASKS = _own("relay_event_loop_tasks", "Tasks of the event loop that have not ended.")
BUILD = _gauge("relay_build_info", "Always 1; the version is in the label.", "version")
PROCESS_UP = _own("relay_process_up", "Whether the process answered this scrape (1) or not.")
PROCESS_UNANSWERED = Family(
    "relay_process_unanswered_total",
    FamilyKind.COUNTER,
    "Scrapes that a worker did not answer in time; what it had counted before stays in the sums.",
    per_process=True,
)
PROCESS = (
    _own("process_resident_memory_bytes", "Resident memory."),
    _own("process_virtual_memory_bytes", "Virtual memory."),
    _own("process_open_fds", "Open file descriptors."),
    _own("process_max_fds", "How many file descriptors may be open."),
    _own("process_start_time_seconds", "Start of the process, in seconds since the epoch."),
    Family(
        "process_cpu_seconds_total",
        FamilyKind.COUNTER,
        "User and system time of the processor.",
        per_process=True,
    ),
)

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        REQUESTS, REQUEST_ERRORS, DURATION, FIRST_TOKEN, OVERHEAD, TOKENS, COST, UNPRICED,
        IN_FLIGHT, CONNECTIONS, ATTEMPTS, LIMIT_DECISIONS, STATE_STORE_UP,
        BUDGET_REFUSALS, BUDGET_MARKS, KEYS_BENCHED, HOSTS_EJECTED, EJECTIONS, RETRIES,
        AFFINITY, SECRET_FETCHES, USAGE_QUEUE, USAGE_DROPPED,
        PAYLOAD_QUEUE, PAYLOAD_DROPPED, DELIVERY_RETRIES, DELIVERY_SET_ASIDE, DELIVERY_DOWN,
        DELIVERY_OLDEST, SPOOL_BYTES, SPOOL_RESERVE, SPOOL_FAILURES, SPOOL_DAMAGED, SPOOL_LOST,
        PAYLOADS, PAYLOAD_MEMORY,
        SNAPSHOT_REVISION, SNAPSHOT_AGE, SNAPSHOT_LAG, SNAPSHOT_FAILURES, CATALOG_SOURCE,
        DATABASE_UP, QUARANTINED, READY, PLUGIN_FAILURES, PLUGIN_CALLS, PLUGIN_SECONDS,
        GUARD_DECISIONS,
        PLUGIN_STALLS, PLUGIN_STATE, LOOP_LAG, LOOP_TASKS, BUILD, PROCESS_UP,
        PROCESS_UNANSWERED, *PROCESS,
    )
}  # fmt: skip
"""All of them by name, in the order in which they are exposed."""
