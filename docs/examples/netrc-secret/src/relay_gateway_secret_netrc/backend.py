"""The backend: passwords of machines from a netrc file, where many tools keep them already."""

from __future__ import annotations

from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError, SecretUnavailableError
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    credential_in,
)


class NetrcConfig(PluginConfig):
    """``[secret_backends.netrc]``."""

    file: Path = Field(default=Path("/etc/relay/netrc"), description="Path of the netrc file.")


class NetrcRef(SecretRef):
    """``{"kind": "netrc", "machine": "api.example.com"}``."""

    kind: Literal["netrc"] = "netrc"
    machine: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            max_length=255,
            description="The machine whose password is the credential.",
        ),
    ]


class NetrcBackend(SecretBackend[NetrcConfig]):
    """Credentials from one netrc file; it is read anew each time, so a changed one is seen."""

    name = "netrc"
    Config = NetrcConfig
    Ref = NetrcRef

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The password of the machine that the reference names."""
        if not isinstance(stored, NetrcRef):
            raise TypeError("the gateway calls with references of this backend only")
        # Whatever blocks runs in a thread: a slow disk must not stop the gateway.
        entries = await self.context.run_blocking(self._read)
        entry = entries.hosts.get(stored.machine)
        if entry is None:
            raise SecretNotFoundError(f"the netrc file has no machine {stored.machine!r}")
        return ResolvedSecret(credential_in(entry[2], f"machine {stored.machine!r}"))

    def _read(self) -> netrc:
        try:
            return netrc(str(self.config.file))
        except (NetrcParseError, PermissionError, UnicodeDecodeError):
            # Nothing is raised from the error caught here: it may quote a line with a password.
            problem = "the netrc file cannot be read: look at its mode, and at its syntax"
        except OSError as error:
            raise SecretUnavailableError(f"the netrc file: {error.strerror}") from error
        raise SecretDeniedError(problem)
