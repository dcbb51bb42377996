"""What went wrong with a call of S3, in the words of the gateway.

Nothing that the store wrote is quoted but its code: its complaint about a signature repeats what
was signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

STALE: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
"""The credentials were good once, or are those of a file that has changed since."""
WITHOUT_CREDENTIALS: Final = frozenset(
    {
        "CredentialRetrievalError",
        "MetadataRetrievalError",
        "NoCredentialsError",
        "PartialCredentialsError",
        "TokenRetrievalError",
    }
)
_CONFIGURED_WRONG: Final = "check the section [{section}]"
_NO_BUCKET: Final = "there is no such bucket; make it, or correct `bucket` in [{section}]"
_HINTS: Final[Mapping[str, str]] = {
    "404": _NO_BUCKET,  # of an answer without a body
    "NoSuchBucket": _NO_BUCKET,
    "NoSuchKey": "there is no such object",
    "AccessDenied": "allow the gateway's identity to {action} there",
    "AllAccessDisabled": "the bucket's account is closed",
    "KMS.DisabledException": "the KMS key is disabled",
    "KMS.NotFoundException": "there is no such KMS key: correct `kms_key_id` in [{section}]",
    "PermanentRedirect": "the bucket is in another region: correct `region` in [{section}]",
    "AuthorizationHeaderMalformed": "the bucket is in another region: correct `region` in "
    "[{section}]",
    "InvalidStorageClass": "correct `storage_class` in [{section}]",
    "RequestTimeTooSkewed": "the clocks of gateway and store differ; set them",
    "SlowDown": "it will be tried again later",
}


class Refusal(msgspec.Struct, frozen=True):
    """``told`` says what happened and what to do; ``missing`` that the object is not there, and
    ``stale`` that other credentials could help. ``status`` is 0 where no answer came."""

    told: str
    status: int = 0
    stale: bool = False
    missing: bool = False


class Doing(msgspec.Struct, frozen=True):
    """One call: on which ``place``, with which permission, configured in which section."""

    place: str
    action: str
    section: str

    def hint(self, text: str) -> str:
        """``text`` with the names of this call."""
        return text.format(action=self.action, section=self.section)


def refused(response: Mapping[str, Any], doing: Doing) -> Refusal:
    """What an answer with an error means."""
    code = str(response.get("Error", {}).get("Code", "")) or "no code"
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    told = f"S3 answered {status} {code} for {doing.place}"
    if code in STALE:
        hint = "the gateway's credentials are expired, unknown or wrong"
    elif code in _HINTS:
        hint = doing.hint(_HINTS[code])
    elif status == 429 or status >= 500:
        hint = "it will be tried again later"
    else:
        hint = doing.hint(_CONFIGURED_WRONG)
    return Refusal(f"{told}: {hint}", status, stale=code in STALE, missing=code == "NoSuchKey")


def failed(error: Exception, doing: Doing) -> Refusal:
    """What an error of the SDK itself means: the store was not asked, or did not answer."""
    name = type(error).__name__
    told = f"S3 could not be asked for {doing.place} ({name})"
    if name in WITHOUT_CREDENTIALS:
        hint = "give the gateway credentials: `value_from`, variables, a profile or a role"
        return Refusal(f"{told}: {hint}", stale=True)
    if name in {"ParamValidationError", "ProfileNotFound", "InvalidConfigError", "NoRegionError"}:
        return Refusal(f"{told}: {doing.hint(_CONFIGURED_WRONG)}")
    return Refusal(f"{told}: it did not answer in time or at all")
