"""The backend: reads a variable as it was when the gateway started."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from relay_gateway.errors import SecretDeniedError, SecretNotFoundError, SecretRefError
from relay_gateway.plugin import (
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    SecretBackend,
    SecretRef,
    credential_in,
)
from relay_gateway_secret_env.names import is_own, refusal

NAME = r"[A-Za-z_][A-Za-z0-9_]*"


def _check_entry(entry: str) -> str:
    if is_own(entry):
        raise ValueError("variables of the gateway itself (RELAY_…) cannot be allowed")
    return entry


AllowEntry = Annotated[
    str,
    Field(pattern=rf"^({NAME}\*?|\*)$", max_length=256),
    AfterValidator(_check_entry),
]


class EnvConfig(PluginConfig):
    """``[secret_backends.env]``."""

    allow: tuple[AllowEntry, ...] | None = Field(
        default=None,
        description="Names that host keys may read, exact or with one `*` at the end; unset: all "
        "but protected ones. A protected name must be listed exactly.",
    )


class EnvRef(SecretRef):
    """``{"kind": "env", "env": "NAME"}``: the variable that holds the credential."""

    kind: Literal["env"] = "env"
    env: Annotated[
        str, Field(pattern=rf"^{NAME}$", max_length=256, description="Name of the variable.")
    ]


class EnvironmentSecrets(SecretBackend[EnvConfig]):
    """Credentials from the environment of the gateway's process, as it was at its start.

    A change of the environment needs a restart; the catalog keeps the variable's name only.
    """

    name: ClassVar[str] = "env"
    Config = EnvConfig
    Ref = EnvRef

    def check(self, ref: SecretRef) -> None:
        """Raises :class:`SecretRefError` for a variable that may not be read; whether it is set
        does not matter here, for it may be set on another instance."""
        reason = refusal(_variable(ref), self.config.allow)
        if reason is not None:
            raise SecretRefError(reason, field="env")

    async def seal(
        self, ref: SecretRef, binding: RowBinding, previous: SecretRef | None
    ) -> SecretRef:
        """``ref`` itself, once it passed :meth:`check`."""
        self.check(ref)
        return ref

    async def resolve(self, stored: SecretRef, binding: RowBinding) -> ResolvedSecret:
        """The variable's value without a newline at its end.

        Raises :class:`SecretNotFoundError` where it is unset or empty, :class:`SecretDeniedError`
        where it may not be read (the list may have changed since the write) or is no credential.
        """
        variable = _variable(stored)
        reason = refusal(variable, self.config.allow)
        if reason is not None:
            raise SecretDeniedError(reason)
        value = self.context.environ(variable) or ""
        self.context.withdraw(variable)
        if value in ("", "\n", "\r\n"):
            raise SecretNotFoundError(
                f"variable {variable} was unset or empty when the gateway started; "
                "set it and restart the gateway"
            )
        return ResolvedSecret(credential_in(value, f"variable {variable}"))


def _variable(ref: SecretRef) -> str:
    if not isinstance(ref, EnvRef):
        raise SecretRefError(f"a reference of kind {ref.kind!r} is not one to a variable")
    return ref.env
