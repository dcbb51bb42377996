"""The backend: each secret is a file of one directory. Replace the file by your own store."""

from __future__ import annotations

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


class MeridianConfig(PluginConfig):
    """``[secret_backends.meridian]``."""

    directory: Path = Field(
        default=Path("/run/secrets"), description="Where the files with the credentials are."
    )


class MeridianRef(SecretRef):
    """``{"kind": "meridian", "file": "name"}``; a name has no slash, so it stays in the directory."""

    kind: Literal["meridian"] = "meridian"
    file: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$",
            max_length=255,
            description="Name of the file.",
        ),
    ]


class MeridianBackend(SecretBackend[MeridianConfig]):
    """Credentials from files of one directory."""

    name = "meridian"
    Config = MeridianConfig
    Ref = MeridianRef

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The content of the file that the reference names."""
        if not isinstance(stored, MeridianRef):
            raise TypeError("the gateway calls with references of this backend only")
        path = self.config.directory / stored.file
        try:
            # Whatever blocks runs in a thread: a slow disk must not stop the gateway.
            text = await self.context.run_blocking(path.read_text, "utf-8")
        except FileNotFoundError as error:
            raise SecretNotFoundError(f"there is no file {stored.file!r}") from error
        except (PermissionError, UnicodeDecodeError) as error:
            raise SecretDeniedError(f"the file {stored.file!r} cannot be read as text") from error
        except OSError as error:
            raise SecretUnavailableError(f"{stored.file!r}: {error.strerror}") from error
        return ResolvedSecret(credential_in(text, f"file {stored.file!r}"))
