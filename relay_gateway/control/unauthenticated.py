"""The error of callers that have not shown who they are."""

from __future__ import annotations

from relay_gateway.errors import RelayError


class UnauthenticatedError(RelayError):
    """The caller has not shown who it is; the message may be shown to it."""

    def __init__(self, message: str, *, code: str = "unauthenticated") -> None:
        super().__init__(message)
        self.code = code
