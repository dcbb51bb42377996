"""Where the bucket is, who writes to it and how: two sections of ``relay.toml``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ByteSize, ConfigDict, Field, SecretStr, model_validator

from relay_gateway.plugin import PluginConfig

MIB = 1024 * 1024
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+/?$", max_length=512)]
Seconds = Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)]
Prefix = Annotated[str, Field(pattern=r"^([A-Za-z0-9!_.'()=-]+/)*$", max_length=512)]


class BucketConfig(PluginConfig):
    """What both sections have in common."""

    # What a validation error quotes of its input could hold a password.
    model_config = ConfigDict(hide_input_in_errors=True)

    bucket: str = Field(
        pattern=r"^[a-z0-9][a-z0-9.-]+[a-z0-9]$",
        min_length=3,
        max_length=63,
        description="The bucket. It has to be there.",
    )
    region: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9-]+$",
        max_length=40,
        description="Its region. Unset: `AWS_REGION`, `AWS_DEFAULT_REGION`, or that of the "
        "profile.",
    )
    endpoint_url: Url | None = Field(
        default=None,
        description="Address of another store that speaks S3, or of a VPC endpoint.",
    )
    path_style: bool = Field(
        default=False,
        description="Whether the bucket is in the path of the address and not in its host name.",
    )
    access_key_id: str | None = Field(
        default=None,
        pattern=r"^[\x21-\x7e]+$",
        max_length=256,
        description="With `value_from`, where the value is the secret access key alone.",
    )
    value_from: dict[str, Any] | None = Field(
        default=None,
        description="Where the credentials are, as in `valueFrom` of a host key: `kind` and what "
        "that secret backend wants to know. The value is a JSON object with `accessKeyId`, "
        "`secretAccessKey` and, if there is one, `sessionToken`. Unset: where AWS tools look for "
        "credentials.",
    )
    profile: str | None = Field(
        default=None,
        min_length=1,
        description="A profile of the shared configuration files; variables with access keys are "
        "then left alone.",
    )
    encryption: Literal["bucket", "s3", "kms"] = Field(
        default="bucket",
        description="How objects are encrypted by the store: as the bucket says, with keys of S3 "
        "(SSE-S3), or with a key of KMS (SSE-KMS).",
    )
    kms_key_id: str | None = Field(
        default=None,
        pattern=r"^[\x21-\x7e]+$",
        max_length=2048,
        description='For `encryption = "kms"`: id, ARN or alias of the key. Unset: the account\'s '
        "own for S3.",
    )
    storage_class: str | None = Field(
        default=None,
        pattern=r"^[A-Z0-9_]+$",
        max_length=40,
        description="Such as `STANDARD_IA`. Unset: the bucket's usual one.",
    )
    bucket_owner: str | None = Field(
        default=None,
        pattern=r"^\d{12}$",
        description="The account that the bucket must belong to; in another's nothing is written.",
    )
    multipart_bytes: ByteSize = Field(
        default=ByteSize(8 * MIB),
        ge=5 * MIB,
        le=1024 * MIB,
        description="A larger object is sent in parts of this size.",
    )
    checksums: bool = Field(
        default=False,
        description="Whether a CRC goes with each object, as buckets with Object Lock want it and "
        "some other stores do not know it. Without, the signature covers the content.",
    )
    ca_file: str | None = Field(
        default=None,
        min_length=1,
        description="Certificates (PEM) that the store's is checked against, in place of the "
        "usual.",
    )
    proxy_url: SecretStr | None = Field(
        default=None,
        description="Proxy to the store (`http://HOST:PORT`). Unset: none; proxy variables of "
        "the environment are not heeded.",
    )
    connect_timeout: Seconds = Field(default=2.0, description="Seconds for a connection.")
    read_timeout: Seconds = Field(
        default=10.0, description="Seconds of silence after which a call is given up."
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.access_key_id is not None and self.value_from is None:
            raise ValueError("access_key_id needs its secret: set value_from, too")
        if self.profile is not None and self.value_from is not None:
            raise ValueError("profile and value_from both say whose credentials: set one")
        if self.kms_key_id is not None and self.encryption != "kms":
            raise ValueError('kms_key_id is for encryption = "kms"')
        return self


class S3UsageConfig(BucketConfig):
    """``[usage_sinks.s3]``. Sizes are bytes or have a unit (`16MiB`)."""

    prefix: Prefix = Field(
        default="usage/", description="What the names of all objects begin with; ends in `/`."
    )
    batch_records: int = Field(
        default=20_000, ge=1, le=200_000, description="How many records an object has at most."
    )
    batch_bytes: ByteSize = Field(
        default=ByteSize(16 * MIB),
        ge=4096,
        le=256 * MIB,
        description="About how large an object is at most, before it is compressed.",
    )
    batch_seconds: float = Field(
        default=60.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="How long a record waits for others to be in one object with. It waits on the "
        "disk, not in memory alone.",
    )


class S3PayloadsConfig(BucketConfig):
    """``[payload_loggers.s3]``. Sizes are bytes or have a unit (`16MiB`)."""

    prefix: Prefix = Field(
        default="payloads/", description="What the names of all objects begin with; ends in `/`."
    )
