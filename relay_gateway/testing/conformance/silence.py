"""Looks for a credential where it must not be: logs, representations, errors, answers."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from relay_gateway.testing.canary import Canary, sweep


def assert_silent(credential: str, texts: Mapping[str, str | bytes]) -> None:
    """Fails with the names of those ``texts`` that show ``credential``, whole, in part or encoded.

    The failure never quotes what it found. Raises ``ValueError`` for a credential too short to be
    recognised in part: use one of 16 characters at least.
    """
    canary = Canary()
    canary.adopt("credential", credential)
    places = {hit.place for hit in sweep(canary, texts=texts)}
    if places:
        raise AssertionError(f"the credential can be read in: {', '.join(sorted(places))}")


def wording(error: BaseException) -> str:
    """All that a log could show of ``error``: message, causes, arguments and traceback."""
    shown = [*traceback.format_exception(error)]
    seen: list[BaseException | None] = []
    link: BaseException | None = error
    while link is not None and link not in seen:
        seen.append(link)
        shown.append(repr(link))
        link = link.__cause__ or link.__context__
    return "\n".join(shown)
