"""What an operator configures, and what an administrator writes as ``valueFrom``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from relay_gateway.plugin import PluginConfig, SecretRef

KIND = "vault"
RESERVED = frozenset({"auth", "cubbyhole", "identity", "sys"})
"""Paths of Vault itself: among what they answer are the gateway's own token and other logins."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

Method = Literal["token", "approle", "kubernetes", "jwt"]
Seconds = Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)]


def _check_segments(path: str) -> str:
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise ValueError("must be names with single slashes between them")
    return path


def _check_mount(mount: str) -> str:
    if RESERVED.intersection(mount.split("/")):
        raise ValueError(f"no mount of a secrets engine has a part {', '.join(sorted(RESERVED))}")
    return _check_segments(mount)


PATH = r"^[^\x00-\x20\x7f?#%\\]+( +[^\x00-\x20\x7f?#%\\]+)*$"
SecretPath = Annotated[str, Field(pattern=PATH, max_length=512), AfterValidator(_check_segments)]
Mount = Annotated[str, Field(pattern=PATH, max_length=256), AfterValidator(_check_mount)]


class VaultConfig(PluginConfig):
    """``[secret_backends.vault]``, for HashiCorp Vault and OpenBao."""

    # What a validation error quotes of its input could be a token.
    model_config = ConfigDict(hide_input_in_errors=True)

    address: str = Field(
        pattern=r"^https?://[^\s/?#@]+/?$",
        max_length=512,
        description="Where Vault listens (`https://HOST:PORT`). Redirects are not followed.",
    )
    namespace: str | None = Field(
        default=None, min_length=1, max_length=256, description="The namespace to work in."
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that Vault's is checked against, in place of the usual.",
    )
    timeout_seconds: Seconds = Field(
        default=2.0, description="Silence after which a connection or an answer is given up."
    )
    mounts: tuple[Mount, ...] = Field(
        default=("secret",),
        min_length=1,
        description="Secrets engines that references may name; the first is used by those that "
        "name none.",
    )
    kv_version: Literal[1, 2] | None = Field(
        default=None, description="Version of the KV engines. Unset: Vault is asked, once a mount."
    )
    auth: Method = Field(default="token", description="How the gateway logs in.")
    auth_mount: Mount | None = Field(
        default=None, description="Mount of the login method. Unset: the method's name."
    )
    token: SecretStr | None = Field(
        default=None,
        description='For `auth = "token"`. Unset: `token_file`, else `VAULT_TOKEN`.',
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with the token, which an agent may replace at any time.",
    )
    role_id: str | None = Field(default=None, min_length=1, description='For `auth = "approle"`.')
    secret_id: SecretStr | None = Field(
        default=None, description='For `auth = "approle"`, where the role asks for one.'
    )
    secret_id_file: Path | None = Field(
        default=None, description="A file with the secret id, read at each login."
    )
    role: str | None = Field(
        default=None,
        min_length=1,
        description='For `auth = "kubernetes"` and `auth = "jwt"`: the role to log in as.',
    )
    jwt_file: Path | None = Field(
        default=None,
        description="For the same two: a file with the JSON Web Token, read at each login. Unset: "
        "the service account's, for `kubernetes`.",
    )

    @model_validator(mode="after")
    def _check_login(self) -> VaultConfig:
        if self.auth == "approle" and self.role_id is None:
            raise ValueError('auth = "approle" needs role_id')
        if self.auth in ("kubernetes", "jwt") and self.role is None:
            raise ValueError(f'auth = "{self.auth}" needs role')
        if self.auth == "jwt" and self.jwt_file is None:
            raise ValueError('auth = "jwt" needs jwt_file')
        return self


class VaultRef(SecretRef):
    """``{"kind": "vault", "path": "…", "key": "…"}``: where in Vault the credential lies."""

    kind: Literal["vault"] = "vault"
    mount: Annotated[
        Mount | None,
        Field(description="Mount of the secrets engine; left out: the first configured one."),
    ] = None
    path: Annotated[
        SecretPath,
        Field(description="Path of the secret below the mount, without `data/`."),
    ]
    key: Annotated[
        str,
        Field(min_length=1, max_length=256, description="Which value of the secret it is."),
    ]
    version: Annotated[
        int | None,
        Field(ge=1, le=2**31 - 1, description="Version (KV 2 only); left out: the newest."),
    ] = None

    @property
    def place(self) -> str:
        """What messages call the secret."""
        mount = f" of mount {self.mount!r}" if self.mount else ""
        version = f" version {self.version}" if self.version else ""
        return f"key {self.key!r} at {self.path!r}{version}{mount}"
