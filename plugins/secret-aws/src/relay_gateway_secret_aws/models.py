"""What an operator configures, and what an administrator writes as ``valueFrom``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SecretStr, model_validator

from relay_gateway.plugin import PluginConfig, SecretRef

KIND = "aws-secrets-manager"
CURRENT = "AWSCURRENT"

Region = Annotated[str, Field(pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d+$", max_length=40)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+/?$", max_length=512)]
Seconds = Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)]


class AwsConfig(PluginConfig):
    """``[secret_backends.aws-secrets-manager]``. Credentials come from where AWS tools look for
    them: variables, profiles, web identity, the container's or the machine's role."""

    # What a validation error quotes of its input could hold a password.
    model_config = ConfigDict(hide_input_in_errors=True)

    region: Region | None = Field(
        default=None,
        description="Region of secrets whose reference names none. Unset: `AWS_REGION`, "
        "`AWS_DEFAULT_REGION`, or that of the profile.",
    )
    endpoint_url: Url | None = Field(
        default=None,
        description="Address of Secrets Manager in place of the public one, for a VPC endpoint or "
        "an emulator; it is used for every region.",
    )
    sts_endpoint_url: Url | None = Field(
        default=None, description="The same for STS, which is asked when `role_arn` is set."
    )
    profile: str | None = Field(
        default=None,
        min_length=1,
        description="A profile of the shared configuration files; variables with access keys are "
        "then left alone.",
    )
    role_arn: str | None = Field(
        default=None,
        pattern=r"^arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+$",
        description="A role to assume before secrets are read.",
    )
    external_id: SecretStr | None = Field(
        default=None, description="What the trust policy of the role asks for as external id."
    )
    session_name: str = Field(
        default="relay-gateway",
        # Not a counted \w, of which the validator would make a table of 6 MiB.
        pattern=r"^[A-Za-z0-9_+=,.@-]+$",
        min_length=2,
        max_length=64,
        description="Name of the role session, which the audit log of AWS shows.",
    )
    role_seconds: int = Field(
        default=3600,
        ge=900,
        le=43_200,
        description="How long an assumed role is asked for; it is assumed anew before the end.",
    )
    connect_timeout: Seconds = Field(
        default=1.0, description="Seconds for a connection; each call is tried twice at most."
    )
    read_timeout: Seconds = Field(
        default=1.5, description="Seconds of silence after which an answer is given up."
    )
    proxy_url: SecretStr | None = Field(
        default=None,
        description="Proxy for calls of AWS (`http://HOST:PORT`). Unset: none; proxy variables of "
        "the environment are not heeded.",
    )
    ttl_seconds: float | None = Field(
        default=None,
        gt=0,
        le=86_400,
        allow_inf_nan=False,
        description="How long a value counts as fresh. Unset: 300 s.",
    )

    @model_validator(mode="after")
    def _check_role(self) -> AwsConfig:
        if self.role_arn is None and self.external_id is not None:
            raise ValueError("external_id is for a role to assume: set role_arn, too")
        return self


class AwsRef(SecretRef):
    """``{"kind": "aws-secrets-manager", "secretId": "…"}``: where in AWS the credential lies."""

    kind: Literal["aws-secrets-manager"] = "aws-secrets-manager"
    secret_id: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9/_+=.@:-]+$",
            max_length=2048,
            description="Name or ARN of the secret.",
        ),
    ]
    json_key: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="Key of the member that is the credential, where the secret is a JSON "
            "object. Left out: the whole text.",
        ),
    ] = None
    version_stage: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="Staging label of the version; left out: AWSCURRENT.",
        ),
    ] = None
    region: Annotated[
        Region | None,
        Field(description="Left out: that of the ARN, else the configured one."),
    ] = None

    @property
    def place(self) -> str:
        """What messages call the secret."""
        stage = f" ({self.version_stage})" if self.version_stage else ""
        key = f", key {self.json_key!r}" if self.json_key else ""
        return f"secret {self.secret_id!r}{stage}{key}"

    @property
    def named_region(self) -> str | None:
        """The region that the reference itself names, by its ARN if need be."""
        parts = self.secret_id.split(":")
        of_arn = parts[3] if parts[0] == "arn" and len(parts) > 6 else None
        return self.region or of_arn or None
