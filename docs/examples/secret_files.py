"""A whole plugin: a secret backend that reads files of a directory, as orchestrators mount them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from relay_gateway.errors import SecretNotFoundError
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
    hookimpl,
)


class FilesConfig(PluginConfig):
    """``[secret_backends.files]``."""

    directory: Path = Path("/run/secrets")


class FilesRef(SecretRef):
    """``{"kind": "files", "file": "name"}``; a name has no slash, so it stays in the directory."""

    kind: Literal["files"] = "files"
    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]


class FilesBackend(SecretBackend[FilesConfig]):
    """Reads each secret from a file of one directory."""

    name = "files"
    Config = FilesConfig
    Ref = FilesRef

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The content of the file that the reference names."""
        assert isinstance(stored, FilesRef)  # noqa: S101 - the gateway calls with this class
        path = self.config.directory / stored.file
        try:
            text = await self.context.run_blocking(path.read_text, "utf-8")
        except FileNotFoundError as error:
            raise SecretNotFoundError(f"there is no file {stored.file!r}") from error
        return ResolvedSecret(Secret(text.strip()))


@hookimpl
def relay_register_secret_backends() -> list[type[SecretBackend[Any]]]:
    """The one class of this plugin."""
    return [FilesBackend]
