"""Words for what plugins are called, in messages and in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterable


def class_name(name: str) -> str:
    """``host key`` and ``aws-secrets-manager`` as ``HostKey`` and ``AwsSecretsManager``."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


def installed(names: Iterable[str]) -> str:
    """``installed: a, b`` for messages."""
    return f"installed: {', '.join(sorted(names)) or 'none'}"
