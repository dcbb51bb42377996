"""Rotating a host key in AWS needs no restart and loses no request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relay_gateway.testing.rotation import rotate_under_load


async def test_f52_a_rotation_in_aws_under_load_fails_no_request(
    aws: Any, put: Any, tmp_path: Path
) -> None:
    (tmp_path / "relay.toml").write_text(
        f'[secret_backends.aws-secrets-manager]\nregion = "eu-central-1"\n'
        f'endpoint_url = "{aws.url}"\n'
    )

    async def rotated(value: str) -> None:
        await put("rotated", value)

    statuses, refused = await rotate_under_load(
        tmp_path,
        aws.identities["reader"],
        {"kind": "aws-secrets-manager", "secretId": "rotated"},
        rotated,
        adapter="openai",
    )
    assert set(statuses) == {200}, statuses
    assert refused > 0, "the upstream never saw an old credential, so nothing was healed"
