from __future__ import annotations

from relay_gateway.observe import families
from relay_gateway.observe.histogram import Histogram
from relay_gateway.observe.place import Place
from relay_gateway.observe.series import Report, Series, series_of, summed

ERRORS = families.REQUEST_ERRORS.name


def report(born: str, errors: int, queue: int = 0) -> Report:
    overhead = Histogram(families.OVERHEAD)
    for _ in range(errors):
        overhead.observe(1)
    return Report(
        born,
        (
            series_of(families.REQUEST_ERRORS, errors, "timeout"),
            overhead.series("chat"),
            series_of(families.USAGE_QUEUE, queue, "file"),
            series_of(families.READY, 1),
        ),
    )


def shown(place: Place, answer: Report | None) -> dict[tuple[str, ...], float]:
    """Values after this answer; of a histogram its count."""
    return {
        (one.family, *one.labels): sum(one.buckets) or one.value
        for one in summed(place.series(answer))
    }


def test_what_an_ended_process_has_counted_stays_in_the_sum() -> None:
    place = Place("worker-1")
    totals = []
    for born, errors in (("a", 5), ("a", 9), ("b", 0), ("b", 2), ("c", 1)):
        values = shown(place, report(born, errors))
        totals.append(values[ERRORS, "timeout"])
        assert values[families.OVERHEAD.name, "chat"] == values[ERRORS, "timeout"]
    assert totals == [5, 9, 9, 11, 12]


def test_gauges_are_of_the_present_process_alone() -> None:
    place = Place("worker-1")
    shown(place, report("a", 1, queue=50))
    assert shown(place, report("b", 1, queue=3))[families.USAGE_QUEUE.name, "file"] == 3


def test_a_process_that_does_not_answer_is_counted_and_nothing_falls() -> None:
    place = Place("worker-1")
    shown(place, report("a", 5, queue=50))
    for unanswered in (1, 2):
        values = shown(place, None)
        assert values[ERRORS, "timeout"] == 5
        assert values[families.PROCESS_UP.name, "worker-1"] == 0
        assert values[families.PROCESS_UNANSWERED.name, "worker-1"] == unanswered
        assert (families.READY.name, "worker-1") not in values
        assert (families.USAGE_QUEUE.name, "file") not in values
    values = shown(place, report("b", 1))
    assert (values[ERRORS, "timeout"], values[families.PROCESS_UP.name, "worker-1"]) == (6, 1)


def test_a_process_that_never_answered_has_nothing_but_its_absence() -> None:
    series: list[Series] = list(Place("worker-2").series(None))
    assert series == [
        series_of(families.PROCESS_UP, 0, "worker-2"),
        series_of(families.PROCESS_UNANSWERED, 1, "worker-2"),
    ]
