"""What the texts of the catalog look like, as JSON Schema: for the OpenAPI document and for forms.

The validators of :mod:`relay_gateway.catalog.specs` decide and explain; these say the same to
programs. Patterns keep to what ECMAScript and Python read alike.
"""

from __future__ import annotations

from typing import Any

_SLUG = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_BASE = "[!-)+-.0-~](?:[!-)+-~]*[!-)+-.0-~])?"
_BASE_WITHOUT_AT = "[!-)+-.0-?A-~](?:[!-)+-?A-~]*[!-)+-.0-?A-~])?"
_PORT = "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_IPV4 = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4_NETWORK = rf"(?:{_IPV4}\.){{3}}{_IPV4}(?:/(?:3[0-2]|[12]?[0-9]))?"
_GROUP = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        "::",
        f"(?:{_GROUP}:){{7}}{_GROUP}",
        f"(?:{_GROUP}:){{1,7}}:",
        f":(?::{_GROUP}){{1,7}}",
        *(f"(?:{_GROUP}:){{1,{7 - after}}}(?::{_GROUP}){{1,{after}}}" for after in range(1, 7)),
    ]
)
_IPV6_NETWORK = f"(?:{_IPV6})(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"

HOST_NAME = rf"{_LABEL}(?:\.{_LABEL})*\.?"
"""Of a machine, or an IPv4 address; underscores are common inside of container networks."""

ID: dict[str, Any] = {"format": "uuid", "examples": ["01890a5d-ac96-774b-bcce-b302099a8057"]}
SLUG: dict[str, Any] = {"pattern": f"^{_SLUG}$", "examples": ["acme"]}
MODEL_NAME: dict[str, Any] = {"pattern": "^[!-)+-~]+$", "examples": ["acme-large"]}
MODEL_ALIAS: dict[str, Any] = {"pattern": r"^[!-)+-~]+\*?$", "examples": ["acme-large-*"]}
REFERENCE: dict[str, Any] = {
    "pattern": rf"^(?:\*|{_BASE_WITHOUT_AT}|(?:{_BASE})?@{_SLUG})$",
    "examples": ["acme/acme-large"],
}
HTTP_URL: dict[str, Any] = {
    "pattern": rf"^[Hh][Tt][Tt][Pp][Ss]?://(?:{HOST_NAME}|\[(?:{_IPV6})\])(?::{_PORT})?"
    r"(?:/[!-\"$->@-\[\]-~]*)?$",
    "examples": ["https://api.example.com"],
}
HEADER_VALUE: dict[str, Any] = {"pattern": "^(?:[!-~](?:[ -~]*[!-~])?)?$", "examples": ["2024-06"]}
CIDR: dict[str, Any] = {
    "pattern": f"^(?:{_IPV4_NETWORK}|{_IPV6_NETWORK})$",
    "examples": ["10.0.0.0/8"],
}
DECIMAL = "[0-9]{1,12}(?:[.][0-9]{1,12})?(?:[eE][+-]?[0-9]{1,2})?"
AMOUNT: dict[str, Any] = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": 999_999_999_999},
        {"type": "string", "pattern": f"^{DECIMAL}$"},
    ],
    "examples": ["0.15"],
}
"""With at most 12 digits before and after the point, also when it is written with an exponent."""
GAUGE_OR_WINDOW: dict[str, Any] = {
    "anyOf": [
        {
            "properties": {
                "meter": {"const": "concurrency"},
                "strategy": {"const": "concurrency"},
                "windowSeconds": {"type": "null"},
            }
        },
        {
            "properties": {
                "meter": {"not": {"const": "concurrency"}},
                "strategy": {"not": {"const": "concurrency"}},
                "windowSeconds": {"type": "integer"},
            },
            "required": ["windowSeconds"],
        },
    ],
    "examples": [{"meter": "requests", "amount": 600, "windowSeconds": 60}],
}
"""A limit's rule is about a gauge, which has no window, or about something counted in one."""
