"""The measuring itself: complete requests, honest medians, targets, and the published table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks.bare import Bare
from benchmarks.processes import LOAD_CORE, BenchmarkError
from benchmarks.programs import Load, Upstream, compile_program
from benchmarks.relay import settings
from benchmarks.results import RESULTS, Machine, Measurement, Report, lines, load
from benchmarks.scenarios import ROWS, SCENARIOS
from benchmarks.sinks import cost_per_record
from benchmarks.stacks import Ask, Direct
from benchmarks.table import markdown
from relay_gateway.registry import Registry
from relay_gateway.settings import load_settings
from relay_gateway.testing.context import plugin_context

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "performance.md"
MACHINE = Machine("a processor", 2, "6.1", "3.11.7", "cc 12", 0.1)


def report(*measurements: Measurement) -> Report:
    return Report("python -m benchmarks", "now", "abc", MACHINE, {}, 2, 0, [], list(measurements))


def measured(
    stack: str, number: int, scenario: str = "1 KB, 64 callers", **figures: float
) -> Measurement:
    return Measurement(scenario=scenario, stack=stack, round=number, **figures)  # type: ignore[arg-type]


def test_a_body_has_exactly_the_size_that_is_asked_for() -> None:
    for ask in (Ask("json1024", 1024), Ask("events200", 5000, streamed=True)):
        body = ask.body()
        assert len(body) == ask.size
        assert json.loads(body).get("stream", False) is ask.streamed


def test_ratios_are_taken_within_a_round_and_then_the_median() -> None:
    found = lines(
        report(
            *(measured("nginx", n, requests_per_second=v) for n, v in enumerate((100, 50, 100))),
            *(measured("relay", n, requests_per_second=v) for n, v in enumerate((50, 30, 40))),
        )
    )
    assert [line.value for line in found] == [0.5]
    assert found[0].medians == {"nginx": 100, "relay": 40}
    assert found[0].reached is True


def test_what_is_added_is_the_difference_to_the_direct_way() -> None:
    figures = {"direct": 10.0, "nginx": 60.0, "relay": 120.0}
    found = lines(report(*(measured(s, 0, "1 KB, 1 caller", p50_us=v) for s, v in figures.items())))
    assert found[0].value == pytest.approx(2.2)
    assert found[0].reached is False


def test_a_table_says_where_the_load_may_have_been_the_limit() -> None:
    tight = measured("nginx", 0, requests_per_second=1.0, spare=0.1)
    assert "30%" in markdown(report(tight, measured("relay", 0, requests_per_second=1.0)))
    assert "30%" not in markdown(report(measured("direct", 0, spare=0.1)))


def test_a_table_says_that_the_machine_was_not_idle() -> None:
    busy = msgspec.structs.replace(report(), machine=Machine("", 2, "", "", "", 2.0))
    assert "not idle" in markdown(busy)
    assert "not idle" not in markdown(report())


def test_a_table_names_the_sink_of_usage_records_and_what_it_costs() -> None:
    measured_one = msgspec.structs.replace(report(), sink="file", sink_us_per_record=2.13)
    assert "sink `file`, which by itself takes 2.1 µs of CPU per request" in markdown(measured_one)
    assert "sink" not in markdown(report())


@pytest.mark.parametrize("sink", ["file", "database"])
def test_the_gateway_is_told_of_the_sink_in_words_that_it_takes(tmp_path: Path, sink: str) -> None:
    told = load_settings({}, settings(sink, tmp_path))
    assert told.usage_logging.sinks == (sink,)
    Registry.discover().configure(
        told.plugin_sections(), lambda name: plugin_context(tmp_path, plugin=name)
    )


def test_the_cost_of_a_sink_is_measured_in_microseconds_per_record() -> None:
    assert 0.1 < cost_per_record("file") < 100


def test_every_row_belongs_to_a_scenario() -> None:
    assert {row.scenario for row in ROWS} == {scenario.name for scenario in SCENARIOS}


def test_the_published_table_is_that_of_the_kept_result() -> None:
    assert markdown(load(RESULTS / "published.json")) in PAGE.read_text("utf-8"), (
        "write the output of `python -m benchmarks --table-of benchmarks/results/published.json` "
        "into docs/explanation/performance.md"
    )


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    directory = tmp_path_factory.mktemp("upstream")
    with Upstream(compile_program("upstream", directory), directory / "upstream.log") as running:
        yield running


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_program("load", tmp_path_factory.mktemp("load"))


def request_file(directory: Path, upstream: Upstream, ask: Ask) -> Path:
    path = directory / "request"
    path.write_bytes(Direct(upstream.port).request(ask))
    return path


@pytest.mark.parametrize(
    ("ask", "check"),
    [
        (Ask("json1024", 1024), "bytes=1024"),
        (Ask("json300000", 300_000), "bytes=300000"),
        (Ask("wait5", 1024), "bytes=1024"),
        (Ask("throttled", 1024), "bytes=1024"),
        (Ask("events20", 1024, streamed=True), "events=22"),
        (Ask("events5every1", 1024, streamed=True), "events=7"),
    ],
    ids=lambda value: value.script if isinstance(value, Ask) else None,
)
def test_load_generator_and_upstream_understand_each_other(
    upstream: Upstream, program: Path, tmp_path: Path, ask: Ask, check: str
) -> None:
    request = request_file(tmp_path, upstream, ask)
    with Load(
        program, upstream.port, request, ["connections=3", "warmup=0", "requests=30", check]
    ) as run:
        result = run.finish()
    assert (result.all_answers, result.errors) == (30, 0)
    assert 0 < result.first_byte_us.p50 <= result.latency_us.max


@pytest.mark.parametrize(
    ("ask", "check"),
    [
        (Ask("json1024", 1024), "bytes=1024"),
        (Ask("json1024", 300_000), "bytes=1024"),
        (Ask("events20", 1024, streamed=True), "events=22"),
    ],
    ids=["small", "large", "stream"],
)
def test_the_bare_proxy_forwards_what_it_is_asked_and_nothing_without_its_key(
    upstream: Upstream, program: Path, tmp_path: Path, ask: Ask, check: str
) -> None:
    bare = Bare(upstream.port)
    try:
        bare.start([ask.script])
        request = tmp_path / "request"
        options = ["connections=3", "warmup=0", "requests=30", check]
        request.write_bytes(bare.request(ask))
        with Load(program, bare.port, request, options) as run:
            result = run.finish()
        assert (result.all_answers, result.errors) == (30, 0)
        request.write_bytes(bare.request(ask).replace(b"bare-key", b"other"))
        with (
            Load(program, bare.port, request, options) as run,
            pytest.raises(BenchmarkError, match="errors, beginning with"),
        ):
            run.finish()
    finally:
        bare.stop()


def test_an_answer_that_is_not_the_wanted_one_ends_the_run_with_an_error(
    upstream: Upstream, program: Path, tmp_path: Path
) -> None:
    request = request_file(tmp_path, upstream, Ask("json1000", 1024))
    options = ["warmup=0", "requests=5", "bytes=1024"]
    with (
        Load(program, upstream.port, request, options) as run,
        pytest.raises(BenchmarkError, match=r"5 errors, beginning with:\nnot the wanted answer"),
    ):
        run.finish()


def test_streams_are_held_open_until_the_run_is_told_to_end(
    upstream: Upstream, program: Path, tmp_path: Path
) -> None:
    ask = Ask("events600every1000", 1024, streamed=True)
    request = request_file(tmp_path, upstream, ask)
    with Load(program, upstream.port, request, ["connections=20", "hold=1"]) as run:
        run.wait_for("holding")
        result = run.finish()
    assert (result.all_answers, result.errors) == (0, 0)


def test_requests_begin_at_a_rate_whatever_becomes_of_those_before(
    upstream: Upstream, program: Path, tmp_path: Path
) -> None:
    path = request_file(tmp_path, upstream, Ask("wait50", 1024))
    options = ["rate=100", "warmup=0.2", "seconds=1"]
    with Load(program, upstream.port, path, ["connections=80", *options]) as load:
        result = load.finish()
    assert 80 <= result.answers <= 110  # some are always on their way
    with (
        Load(program, upstream.port, path, ["connections=2", *options]) as load,
        pytest.raises(BenchmarkError, match="no connection was free"),
    ):
        load.finish()


def test_children_run_on_the_core_they_are_given(upstream: Upstream) -> None:
    status = subprocess.run(
        ["taskset", "-cp", str(upstream.pid)], capture_output=True, text=True, check=True
    )
    assert status.stdout.strip().endswith(f": {LOAD_CORE}")
    assert upstream.usage().resident_bytes > 0
