"""Which environment variables a host key may name."""

from __future__ import annotations

from collections.abc import Sequence

GATEWAY_PREFIX = "RELAY_"
"""What the gateway's own settings begin with; nothing makes those readable."""

PROTECTED = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_CLIENT_SECRET",
        "DATABASE_URL",
        "DJANGO_SECRET_KEY",
        "DOCKER_AUTH_CONFIG",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GITLAB_TOKEN",
        "HOME",
        "HOSTNAME",
        "LOGNAME",
        "MASTER_KEY",
        "MONGODB_URI",
        "MYSQL_PASSWORD",
        "MYSQL_PWD",
        "MYSQL_ROOT_PASSWORD",
        "NPM_TOKEN",
        "OLDPWD",
        "PATH",
        "POSTGRES_PASSWORD",
        "PWD",
        "REDISCLI_AUTH",
        "SECRET_KEY",
        "SENTRY_DSN",
        "SHELL",
        "SSH_AUTH_SOCK",
        "TWINE_PASSWORD",
        "USER",
        "VAULT_TOKEN",
    }
)
"""Variables of the machine and of other services; readable only where ``allow`` spells them out."""

PROTECTED_PREFIXES = ("KUBERNETES_", "LD_", "PG", "PYTHON")
PROTECTED_SUFFIXES = (
    "_CONNECTION_STRING",
    "_DATABASE_URL",
    "_DSN",
    "_PASSWORD",
    "_PRIVATE_KEY",
    "DATABASE_URI",
    "POSTGRES_URL",
    "REDIS_URL",
)


def is_own(name: str) -> bool:
    """Whether ``name`` is the gateway's own, in any case: on some systems case does not matter."""
    return name.upper().startswith(GATEWAY_PREFIX)


def is_protected(name: str) -> bool:
    """Whether ``name`` usually holds something else than a key of a model host."""
    upper = name.upper()
    return (
        upper in PROTECTED
        or upper.startswith(PROTECTED_PREFIXES)
        or upper.endswith(PROTECTED_SUFFIXES)
    )


def is_listed(name: str, allow: Sequence[str]) -> bool:
    """Whether ``allow`` has ``name`` itself, or a start of it before a ``*``."""
    return any(
        name.startswith(entry[:-1]) if entry.endswith("*") else name == entry for entry in allow
    )


def refusal(name: str, allow: Sequence[str] | None) -> str | None:
    """Why ``name`` may not be read, or ``None``. ``allow`` ``None`` means that no list is set."""
    if is_own(name):
        return (
            f"variable {name} belongs to the gateway itself (its names begin with "
            f"{GATEWAY_PREFIX}) and is never read for a host key; use another name"
        )
    if allow is not None and not is_listed(name, allow):
        return (
            f"variable {name} is not on the list of [secret_backends.env] allow; "
            "add it there or use a name that is"
        )
    if is_protected(name) and name not in (allow or ()):
        return (
            f"variable {name} usually holds something else than a host key; to read it all the "
            "same, put its full name on the list of [secret_backends.env] allow"
        )
    return None
