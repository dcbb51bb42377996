"""The shape of Vault's answers, and the errors it gives."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]


class VaultAnswerError(Exception):
    """An answer with an error; ``data`` is there where Vault tells something all the same."""

    def __init__(self, status: int, *errors: str, data: Document | None = None) -> None:
        super().__init__(status, errors)
        self.status = status
        self.errors = errors
        self.data = data

    def document(self) -> Document:
        """What goes on the wire."""
        return {"errors": list(self.errors)} if self.data is None else envelope(data=self.data)


def permission_denied() -> VaultAnswerError:
    """No token, a dead one, or one whose policies do not allow it."""
    return VaultAnswerError(403, "1 error occurred:\n\t* permission denied\n\n")


def not_found() -> VaultAnswerError:
    """Nothing is there."""
    return VaultAnswerError(404)


def bad_request(why: str) -> VaultAnswerError:
    """The request makes no sense."""
    return VaultAnswerError(400, why)


def envelope(
    data: Mapping[str, Any] | None = None,
    *,
    auth: Document | None = None,
    lease_id: str = "",
    lease_duration: int = 0,
) -> Document:
    """What every successful answer is wrapped in."""
    return {
        "request_id": str(uuid.uuid4()),
        "lease_id": lease_id,
        "renewable": bool(lease_id),
        "lease_duration": lease_duration,
        "data": data,
        "wrap_info": None,
        "warnings": None,
        "auth": auth,
    }
