"""Making a committed write effective: waited for, and never a reason to say that it failed."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar

from relay_gateway.control.services import ControlServices

EFFECT_SECONDS = 5.0
"""How long the answer to a write waits for the snapshot of this process."""

pending: ContextVar[bool] = ContextVar("relay_effect_pending", default=False)
"""Whether the write of this request is made, but not yet known to be in effect here."""

_log = logging.getLogger(__name__)


async def take_effect(services: ControlServices) -> None:
    """Waits until a committed write is in effect here. Where that fails or takes too long, the
    answer says so: the write is done, the next look at the database picks it up."""
    try:
        async with asyncio.timeout(EFFECT_SECONDS):
            await services.refresh()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        _postpone("the build was given up")  # for everybody who waited for it, not for this caller
    except TimeoutError:
        _postpone(f"no snapshot within {EFFECT_SECONDS:g} s")
    except Exception:  # noqa: BLE001 - the write is made, whatever this is
        pending.set(True)
        _log.exception("a write is committed, but the snapshot was not rebuilt")


def _postpone(reason: str) -> None:
    pending.set(True)
    _log.warning("a write is committed and not yet in effect: %s", reason)
