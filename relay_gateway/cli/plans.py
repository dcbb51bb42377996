"""How commands show a plan, ask for consent and say how it ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

if TYPE_CHECKING:
    from relay_gateway.declarative.catalog import DeclaredCatalog
    from relay_gateway.declarative.plan import FieldChange, Plan, Step

EXIT_CHANGES = 3
_MARKS = {"create": "+", "update": "~", "delete": "-"}
_LONGEST = 120
MANY = 500
"""So many entities take more than a second."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DetailedExitCode = Annotated[
    bool,
    typer.Option("--detailed-exitcode", help="Exit with 3, not 0, when there are changes."),
]
MakePlan = Callable[["DeclaredCatalog"], Awaitable["Plan"]]


class Consent(msgspec.Struct, frozen=True):
    """What a plan may lead to. ``asking`` is false where standard input is taken for something
    else."""

    dry_run: bool
    yes: bool
    as_json: bool
    detailed_exit_code: bool
    asking: bool = True


async def run_plan(catalog: DeclaredCatalog, make: MakePlan, consent: Consent) -> int:
    """Makes a plan, shows it, carries it out if that is wanted; the exit code."""
    from relay_gateway.cli.output import complain

    plan = await make(catalog)
    for note in plan.notes:
        complain(f"note: {note}")
    if not consent.as_json:
        show_plan(plan)
    if plan.steps and not consent.dry_run:
        if not _agreed(consent):
            complain("nothing was changed")
            return 1
        if len(plan.steps) >= MANY:
            complain(f"writing {len(plan.steps)} entities")
        plan = await catalog.carry_out(plan, lambda: make(catalog))
    _show_outcome(plan, consent)
    return EXIT_CHANGES if plan.steps and consent.detailed_exit_code else 0


def show_plan(plan: Plan) -> None:
    """Prints the steps with the fields that change, and their sum."""
    from relay_gateway.cli.output import say

    for step in plan.steps:
        for line in _lines(step):
            say(line)
    say(_sum(plan))


def _sum(plan: Plan) -> str:
    if not plan.steps:
        return f"no changes; {plan.unchanged} unchanged"
    counts = [f"{plan.count('create')} to create", f"{plan.count('update')} to update"]
    return ", ".join([*counts, f"{plan.count('delete')} to delete", f"{plan.unchanged} unchanged"])


def _lines(step: Step) -> Iterator[str]:
    yield f"{_MARKS[step.action]} {step.kind} {step.slug}"
    for change in step.changes:
        yield f"    {_line(change)}"


def _line(change: FieldChange) -> str:
    if change.before is None:
        return f"{change.field}: {_shown(change.after)}"
    return f"{change.field}: {_shown(change.before)} -> {_shown(change.after)}"


def _shown(value: Any) -> str:
    from relay_gateway.log import escape

    if value is None:
        return "(nothing)"
    text = escape(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _agreed(consent: Consent) -> bool:
    """Whether the plan may be carried out. Raises :class:`ConfigurationError` where nobody can be
    asked."""
    from relay_gateway.errors import ConfigurationError

    if consent.yes:
        return True
    if not consent.asking or consent.as_json or not sys.stdin.isatty():
        raise ConfigurationError(
            "nothing was changed, because nobody can be asked here; give --yes to change it, or "
            "--dry-run to see the plan only"
        )
    return typer.confirm("Change the catalog like this?", err=True)


def _show_outcome(plan: Plan, consent: Consent) -> None:
    from relay_gateway.cli.output import complain, say, say_json

    minted = {} if consent.dry_run else plan.minted
    if consent.as_json:
        say_json(_as_json(plan, {slug: key.reveal() for slug, key in minted.items()}, consent))
        return
    for slug, plaintext in sorted(minted.items()):
        say(f"relay key {slug}: {plaintext.reveal()}")
    if minted:
        complain("These keys are not shown again: store them now.")
    if plan.steps and not consent.dry_run:
        complain("done; running gateways have it within a second")


def _as_json(plan: Plan, minted: dict[str, str], consent: Consent) -> dict[str, Any]:
    return {
        "applied": bool(plan.steps) and not consent.dry_run,
        "steps": [
            {
                "action": step.action,
                "kind": step.kind,
                "slug": step.slug,
                "changes": [
                    {"field": c.field, "before": c.before, "after": c.after} for c in step.changes
                ],
            }
            for step in plan.steps
        ],
        "unchanged": plan.unchanged,
        "notes": list(plan.notes),
        "plaintexts": minted,
    }
