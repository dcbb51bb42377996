"""Rotating a host key in Vault needs no restart and loses no request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from relay_gateway.testing.rotation import rotate_under_load


async def test_f52_a_rotation_in_vault_under_load_fails_no_request(
    peer: Any, tmp_path: Path
) -> None:
    await asyncio.to_thread(peer.mount, "rotated", 2)
    (tmp_path / "relay.toml").write_text(
        f'[secret_backends.vault]\naddress = "{peer.url}"\nmounts = ["rotated"]\n'
    )

    async def put(value: str) -> None:
        await asyncio.to_thread(peer.put, "rotated", 2, "acme", api_key=value)

    statuses, refused = await rotate_under_load(
        tmp_path,
        {"VAULT_TOKEN": peer.root},
        {"kind": "vault", "path": "acme", "key": "api_key"},
        put,
        adapter="openai",
    )
    assert set(statuses) == {200}, statuses
    assert refused > 0, "the upstream never saw an old credential, so nothing was healed"
