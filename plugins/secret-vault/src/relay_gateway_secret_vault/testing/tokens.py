"""Tokens, the policies they have, and the methods of login that give them out."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relay_gateway_secret_vault.testing.answers import (
    Document,
    VaultAnswerError,
    bad_request,
    envelope,
    not_found,
    permission_denied,
)

_RULE = re.compile(r'path\s+"([^"]+)"\s*\{\s*capabilities\s*=\s*\[([^\]]*)\]')
DEFAULT_TTL = 2_764_800
OWN_PATHS = ("auth/token/lookup-self", "auth/token/renew-self", "auth/token/revoke-self")
"""What the policy ``default`` allows every token."""


@dataclass(slots=True)
class Token:
    """One token. ``ttl`` 0 never ends; ``max_ttl`` is the most that renewals can come to."""

    id: str
    policies: tuple[str, ...]
    ttl: int
    renewable: bool
    max_ttl: int = 0
    born: float = field(default_factory=time.monotonic)
    ends: float = 0.0

    def extend(self, seconds: int) -> int:
        """Gives the token ``seconds`` from now, or what is left until ``max_ttl``."""
        granted = float(seconds)
        if self.max_ttl:
            granted = min(granted, self.born + self.max_ttl - time.monotonic())
        self.ends = time.monotonic() + granted
        return max(0, int(granted))

    @property
    def left(self) -> int:
        """Seconds until the end, rounded up."""
        return max(0, -int(-(self.ends - time.monotonic()) // 1)) if self.ttl else 0

    def auth(self, seconds: int) -> Document:
        """What a login or a renewal answers."""
        return {
            "client_token": self.id,
            "accessor": f"accessor-{id(self)}",
            "policies": list(self.policies),
            "token_policies": list(self.policies),
            "metadata": None,
            "lease_duration": seconds,
            "renewable": self.renewable,
            "entity_id": "",
            "token_type": "service",
            "orphan": True,
        }


class Tokens:
    """All tokens and policies; ``root`` may do everything."""

    def __init__(self, root: str) -> None:
        self.live: dict[str, Token] = {root: Token(root, ("root",), 0, renewable=False)}
        self.policies: dict[str, list[tuple[str, str]]] = {}
        self.renewals = 0

    def write_policy(self, name: str, text: str) -> None:
        """Takes the rules of a policy; of HCL only ``path`` with ``capabilities`` is known."""
        self.policies[name] = _RULE.findall(text)

    def permit(self, given: str, path: str, capability: str) -> Token:
        """The live token of a request that may be made."""
        token = self.live.get(given)
        if token is None or (token.ttl and time.monotonic() >= token.ends):
            raise permission_denied()
        if "root" in token.policies or path in OWN_PATHS:
            return token
        rules = [rule for name in token.policies for rule in self.policies.get(name, ())]
        if not any(_covers(pattern, path) and capability in can for pattern, can in rules):
            raise permission_denied()
        return token

    def sees_mount(self, token: Token, mount: str) -> bool:
        """Whether any rule of the token is about paths of ``mount``."""
        rules = [rule for name in token.policies for rule in self.policies.get(name, ())]
        return "root" in token.policies or any(rule[0].startswith(f"{mount}/") for rule in rules)

    def issue(self, wanted: Mapping[str, Any]) -> Token:
        """A new token by the members of ``auth/token/create``."""
        ttl = _seconds(wanted.get("ttl")) or DEFAULT_TTL
        made = Token(
            wanted.get("id") or f"hvs.{secrets.token_urlsafe(24)}",
            ("default", *wanted.get("policies", ())),
            ttl,
            wanted.get("renewable", True) is True,
            _seconds(wanted.get("explicit_max_ttl")),
        )
        made.extend(ttl)
        self.live[made.id] = made
        return made

    def renew(self, token: Token, wanted: Mapping[str, Any]) -> Document:
        """The answer to ``renew-self``."""
        self.renewals += 1
        if not token.renewable:
            raise bad_request("lease is not renewable")
        granted = token.extend(_seconds(wanted.get("increment")) or token.ttl)
        return envelope(auth=token.auth(granted))

    def look_up(self, token: Token) -> Document:
        """The answer to ``lookup-self``."""
        facts = {
            "accessor": f"accessor-{id(token)}",
            "creation_ttl": token.ttl,
            "display_name": "token",
            "explicit_max_ttl": token.max_ttl,
            "id": token.id,
            "policies": list(token.policies),
            "renewable": token.renewable,
            "ttl": token.left,
            "type": "service",
        }
        return envelope(facts)


class AppRoles:
    """The method ``approle``."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._roles: dict[str, Document] = {}
        self._secret_ids: dict[str, str] = {}

    def write(self, name: str, wanted: Document) -> None:
        """Creates or changes a role."""
        self._roles.setdefault(name, {"role_id": secrets.token_hex(16)}).update(wanted)

    def role_id(self, name: str) -> Document:
        """The answer to a read of ``role-id``."""
        if name not in self._roles:
            raise not_found()
        return envelope({"role_id": self._roles[name]["role_id"]})

    def new_secret_id(self, name: str) -> Document:
        """The answer to a write of ``secret-id``."""
        made = secrets.token_hex(16)
        self._secret_ids[made] = name
        return envelope({"secret_id": made, "secret_id_accessor": "x", "secret_id_ttl": 0})

    def forget_secret_ids(self) -> None:
        """From now on no secret id is good any more."""
        self._secret_ids.clear()

    def log_in(self, given: Document) -> Document:
        """The answer to a login."""
        name = self._secret_ids.get(given.get("secret_id") or "")
        role = self._roles.get(name or "")
        if role is None or role["role_id"] != given.get("role_id"):
            raise bad_request("invalid role or secret ID")
        return _logged_in(self._tokens, role)


class WebIdentities:
    """The methods ``kubernetes`` and ``jwt``: a role, and the token that it is given for."""

    def __init__(self, tokens: Tokens, refused: VaultAnswerError) -> None:
        self._tokens = tokens
        self._refused = refused
        self.roles: dict[str, Document] = {}
        """By role: ``jwt``, and the members of a token role."""

    def log_in(self, given: Document) -> Document:
        """The answer to a login."""
        role = self.roles.get(given.get("role") or "")
        if role is None or given.get("jwt") != role["jwt"]:
            raise self._refused
        return _logged_in(self._tokens, role)


def _logged_in(tokens: Tokens, role: Document) -> Document:
    policies = role.get("token_policies", ())
    token = tokens.issue(
        {
            "policies": policies.split(",") if isinstance(policies, str) else policies,
            "ttl": role.get("token_ttl"),
            "explicit_max_ttl": role.get("token_max_ttl"),
            "renewable": role.get("token_type") != "batch",
        }
    )
    return envelope(auth=token.auth(token.ttl))


def _seconds(value: Any) -> int:
    return int(str(value).removesuffix("s")) if value else 0


def _covers(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern
