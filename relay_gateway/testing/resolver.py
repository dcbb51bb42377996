"""A name server of the test's own."""

from __future__ import annotations

from collections.abc import Sequence

from relay_gateway.http.egress import Address


class FakeResolver:
    """Answers with the given addresses, one answer after the other, round and round.

    ``questions`` are the names it was asked for.
    """

    def __init__(self, *answers: Sequence[Address]) -> None:
        self._answers = answers
        self.questions: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """The next answer."""
        self.questions.append(host)
        return self._answers[(len(self.questions) - 1) % len(self._answers)]
