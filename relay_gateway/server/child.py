"""A child of the supervisor from its first to its last instruction."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import NoReturn

import uvloop

from relay_gateway.errors import ConfigurationError, RelayError
from relay_gateway.server.link import SupervisorLine
from relay_gateway.server.open_files import prepare_table

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2

Work = Callable[[SupervisorLine], Awaitable[None]]
"""What a child does, until the line tells it to end."""

_log = logging.getLogger(__name__)


def live(work: Work, line: SupervisorLine) -> NoReturn:
    """Does ``work`` and ends the process.

    It never returns: what the parent's callers would do at their end is not the child's to do.
    """
    code = EXIT_FAILED
    try:
        code = _run(work, line)
    finally:
        # Writes out what is still waiting; nothing else of the interpreter's end is needed.
        logging.shutdown()
        os._exit(code)


def _run(work: Work, line: SupervisorLine) -> int:
    try:
        prepare_table()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_await(work, line))
    except RelayError as error:
        line.failed(str(error))
        _log.error("%s", error)
        return EXIT_CONFIGURATION if isinstance(error, ConfigurationError) else EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - whatever it is, the supervisor is told
        line.failed(f"{type(error).__name__}; the log has the details")
        _log.exception("this process failed")
        return EXIT_FAILED
    return 0


async def _await(work: Work, line: SupervisorLine) -> None:
    await work(line)
