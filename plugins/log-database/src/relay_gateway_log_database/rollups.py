"""Sums per hour and per day: which views there are, and the statements that keep them.

A view is a set of dimensions that is asked for together. The writer adds up the rows that a batch
has really added, and adds that in the same transaction; a record that came before adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Table

from relay_gateway_log_database.tables import (
    COUNTED,
    DAY_US,
    DIMENSIONS,
    HOUR_US,
    SUMMED,
    TIMED,
    usage_daily,
    usage_hourly,
)

VIEWS: tuple[tuple[str, ...], ...] = (
    (),
    ("outcome", "status", "endpoint"),
    ("provider_id", "model_id"),
    ("host_id", "host_key_id"),
    ("relay_key_id", "policy_id"),
    ("provider_id", "model_id", "host_id", "host_key_id"),
    ("provider_id", "model_id", "relay_key_id", "policy_id"),
    ("policy_id",),
)
"""Dimensions by number of the view, which rollups have in ``view``: numbers never change."""

BY_POLICY = 7
FEWEST_FIRST = (0, 1, 2, 3, BY_POLICY, 4, 5, 6)
"""The views, with fewer groups first."""

IMPLIED = {
    "model_id": "provider_id",
    "host_key_id": "host_id",
    "relay_key_id": "policy_id",
}
"""What nearly always follows from another dimension: it makes no more groups of them."""

UNITS = {usage_hourly.name: HOUR_US, usage_daily.name: DAY_US}
"""Length of a step in microseconds."""

LARGEST = (1 << 53) - 1
"""The most that one record adds to a sum: an absurd figure must not stop a batch."""
_FULL = (1 << 63) - 1
KEYS = ("view", "step", *(f"d{n}" for n in range(1, DIMENSIONS + 1)), "currency")
HISTOGRAMS = tuple(f"{kind}_histogram" for kind in TIMED)
_TIMES = tuple(f"{kind}_sum" for kind in TIMED)
COLUMNS = (*KEYS, *COUNTED, *SUMMED, *_TIMES, *HISTOGRAMS)
"""Columns of the rollups, in the order of the values that are added."""
REPLACED = (*KEYS, *COUNTED, *HISTOGRAMS)
SHORTENED_EVERY = 8
"""After so many batches of a writer histograms that have grown long are written anew."""
LONG = 512
"""Bytes of histograms from which on a sum is worth being written with shorter ones."""


def view_of(columns: Iterable[str]) -> int | None:
    """The smallest view that has all of ``columns``, or ``None``."""
    wanted = set(columns)
    return next((number for number in FEWEST_FIRST if wanted <= set(VIEWS[number])), None)


def is_as_fine(columns: Iterable[str], view: int) -> bool:
    """Whether grouping by ``columns`` gives about as many groups as ``view`` has."""
    known = set(columns)
    known.update(IMPLIED[name] for name in tuple(known) if name in IMPLIED)
    return known >= set(VIEWS[view])


def adding(rollup: Table, sums: str, *, blob: str) -> str:
    """The statement that adds ``sums``, SQL for rows of ``COLUMNS``; ``blob`` is what the database
    calls the type of bytes. Rows have one order everywhere: then writers wait for each other at the
    first one of an hour or day, and never in a circle."""
    merged = (
        *(f"{name} = {rollup.name}.{name} + excluded.{name}" for name in COUNTED),
        *(_saturated(rollup.name, name) for name in SUMMED),
        *(_present(rollup.name, name, "{} + {}") for name in _TIMES),
        *(_present(rollup.name, name, f"CAST({{}} || {{}} AS {blob})") for name in HISTOGRAMS),
    )
    return (
        f"INSERT INTO {rollup.name} ({', '.join(COLUMNS)}) {sums} "
        f"ON CONFLICT ({', '.join(KEYS)}) DO UPDATE SET {', '.join(merged)}"
    )


def long_histograms(rollup: Table, steps: str) -> str:
    """The statement that finds the key and the histograms of sums whose histograms have grown long;
    ``steps`` is SQL for a list of steps."""
    bytes_of = " + ".join(f"coalesce(length({name}), 0)" for name in HISTOGRAMS)
    return (
        f"SELECT {', '.join((*KEYS, *HISTOGRAMS))} FROM {rollup.name} "  # noqa: S608 - names only
        f"WHERE view IN ({', '.join(str(number) for number in range(len(VIEWS)))}) "
        f"AND step IN {steps} AND {bytes_of} > {LONG}"
    )


def replacing_histograms(rollup: Table, histograms: str) -> str:
    """The statement that gives sums, which are there, other ``histograms``: SQL for rows of
    ``REPLACED``."""
    return (
        f"INSERT INTO {rollup.name} ({', '.join(REPLACED)}) {histograms} "
        f"ON CONFLICT ({', '.join(KEYS)}) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in HISTOGRAMS)
    )


def correcting(rollup: Table) -> str:
    """The statement that changes cost and number of unpriced requests of one sum, with parameters
    by the names of the columns."""
    keys = ", ".join(KEYS)
    values = ", ".join(f":{name}" for name in KEYS)
    return f"""
        INSERT INTO {rollup.name} ({keys}, requests, errors, unpriced, cost_nanos)
        VALUES ({values}, 0, 0, :unpriced, :cost_nanos)
        ON CONFLICT ({keys}) DO UPDATE SET
            unpriced = {rollup.name}.unpriced + excluded.unpriced,
            {_saturated(rollup.name, "cost_nanos")}
    """  # noqa: S608 - names of columns only


def _present(table: str, name: str, together: str) -> str:
    mine, added = f"{table}.{name}", f"excluded.{name}"
    return f"{name} = coalesce({together.format(mine, added)}, {mine}, {added})"


def _saturated(table: str, name: str) -> str:
    mine, added = f"{table}.{name}", f"excluded.{name}"
    total = (
        f"CASE WHEN CAST({mine} AS numeric) + {added} > {_FULL} THEN {_FULL}"
        f" ELSE {mine} + {added} END"
    )
    return f"{name} = coalesce({total}, {mine}, {added})"


def places_of(view: int, columns: Sequence[str]) -> list[str]:
    """Columns of the rollups that hold ``columns`` in ``view``."""
    return [f"d{VIEWS[view].index(column) + 1}" for column in columns]
