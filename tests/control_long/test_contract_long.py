"""The control plane held to its own OpenAPI document for longer, each time by other requests."""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path

from relay_gateway.testing.contract import PHASES, judge_apart

EXAMPLES = 250
CALLS = 50_000

logger = logging.getLogger(__name__)


async def test_t54_every_answer_to_50_000_made_up_requests_follows_the_document(
    tmp_path: Path, postgres_url: str
) -> None:
    seed = secrets.randbelow(1 << 31)
    logger.info("seed %d", seed)
    verdicts = await asyncio.gather(
        judge_apart(f"sqlite:///{tmp_path}/c.sqlite3", PHASES, EXAMPLES, seed),
        judge_apart(postgres_url, PHASES, EXAMPLES, seed + 1),
    )
    for verdict in verdicts:
        logger.info("%d calls in %.0f s: %s", verdict.calls, verdict.seconds, verdict.statuses)
        assert verdict.failures == {}, f"seed {seed}\n" + "\n\n".join(verdict.failures.values())
    assert sum(verdict.calls for verdict in verdicts) >= CALLS
