"""What may differ between hosts with the OpenAI API: the ``adapterConfig`` of this adapter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from relay_gateway.plugin import AdapterConfig

AccountId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=128)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$", max_length=64)]
ApiVersion = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)]

AUTHORIZATION = "authorization"
_TAKEN = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class OpenAIHost(AdapterConfig):
    """All optional. The defaults are what OpenAI itself wants; what well-known other hosts want is
    in the catalog that a gateway begins with."""

    organization: AccountId | None = Field(
        default=None,
        description="whose account is billed where a credential belongs to several; sent as "
        "`OpenAI-Organization`",
    )
    project: AccountId | None = Field(default=None, description="the same for `OpenAI-Project`")
    credential_header: HeaderName = Field(
        default=AUTHORIZATION,
        description="header that carries the credential; in `authorization` it follows `Bearer`, "
        "in any other (`api-key`) it stands alone",
    )
    deployments: bool = Field(
        default=False,
        description="whether the upstream's name of a model is that of a deployment and goes into "
        "the path: `/deployments/NAME/chat/completions`",
    )
    api_version: ApiVersion | None = Field(
        default=None, description="value of the query parameter `api-version` of each request"
    )
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_completion_tokens",
        description="member of translated chat requests that limits the answer",
    )
    stream_usage: bool = Field(
        default=True,
        description="whether the host takes `stream_options`; where not, the gateway does not ask "
        "for usage in streams of callers who left it out, and has what the host tells unasked",
    )
    developer_role: bool = Field(
        default=True,
        description="whether the host knows the role `developer`; where not, translated messages "
        "of that role are `system` messages",
    )

    @field_validator("credential_header")
    @classmethod
    def _is_free(cls, name: str) -> str:
        lower = name.lower()
        if lower in _TAKEN:
            raise ValueError(f"{name!r} is a header with another meaning")
        return lower
