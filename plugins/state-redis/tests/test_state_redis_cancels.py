"""Callers that leave, while Redis is asked for them or afterwards, hold nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from relay_gateway.limits import guarded_store
from relay_gateway.limits.choose import limiter_over
from relay_gateway.testing.cancel_waves import PATIENCE, cancel_waves
from relay_gateway_state_redis.testing.server import RedisServer


async def test_t38_cancelled_requests_leave_every_gauge_in_redis_at_zero(
    server: RedisServer, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_store, "CALL_SECONDS", PATIENCE)
    monkeypatch.setattr(guarded_store, "LINGER_SECONDS", PATIENCE)
    store = await opened(server.url, timeout_seconds=PATIENCE / 2)
    limits, left = await cancel_waves(limiter_over(store), 1500)
    assert left == limits
