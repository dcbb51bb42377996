"""Passwords of the control plane: hashing, and verifying in a time that tells nothing."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from functools import cached_property

from relay_gateway.secret import Secret

ROUNDS = 12
"""Cost of new hashes, as a power of two."""
MAX_BYTES = 72
"""bcrypt reads no more; a longer password would be verified by its beginning."""

_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_PREFIXES = ("$2a$", "$2b$", "$2y$")


def hash_password(password: Secret, rounds: int = ROUNDS) -> str:
    """The bcrypt hash of ``password``.

    Raises :class:`ValueError` for an empty one, one of more than 72 bytes and one with a NUL.
    """
    problem = password_problem(password)
    if problem is not None:
        raise ValueError(f"the password {problem}")
    # Here and below: only a gateway that people log in to needs the library.
    import bcrypt

    return bcrypt.hashpw(_bytes(password.reveal()), bcrypt.gensalt(rounds)).decode()


def password_problem(password: Secret) -> str | None:
    """Why ``password`` cannot be one, or ``None``."""
    given = _bytes(password.reveal())
    if not given:
        return "is empty"
    if len(given) > MAX_BYTES:
        return f"has {len(given)} bytes; bcrypt reads only the first {MAX_BYTES}"
    return "contains a NUL character" if b"\0" in given else None


def is_hash(stored: Secret) -> bool:
    """Whether a stored password claims to be a bcrypt hash, and not the password itself."""
    return stored.reveal().startswith(_PREFIXES)


def stored_problem(stored: Secret) -> str | None:
    """Why nobody could log in with what is stored, or ``None``."""
    if not is_hash(stored):
        return password_problem(stored)
    if _BCRYPT.fullmatch(stored.reveal()):
        return None
    return (
        "begins like a bcrypt hash and is not one; "
        "make one with `relay-gateway users hash-password`"
    )


class PasswordBook:
    """The users who may log in, each with a stored password: a bcrypt hash or plain text.

    Verifying takes as long for an unknown user, and for plain text, as for the costliest hash.
    """

    def __init__(self, stored: Mapping[str, Secret]) -> None:
        self._stored = dict(stored)

    def __bool__(self) -> bool:
        return bool(self._stored)

    def stored(self, username: str) -> Secret | None:
        """What is stored for ``username``, ``None`` for nobody's name."""
        return self._stored.get(username)

    def verify(self, username: str, password: Secret) -> bool:
        """Whether this is the user's password. Takes a quarter of a second of processor time:
        call it in a thread."""
        # Made by the first call, whoever it is about.
        decoy = self._decoy
        stored = self._stored.get(username)
        given = _bytes(password.reveal())
        if stored is not None and is_hash(stored):
            return _check(given, stored.reveal())
        _check(given, decoy)
        if stored is None:
            return False
        return hmac.compare_digest(given, _bytes(stored.reveal()))

    @cached_property
    def _decoy(self) -> str:
        """A hash of no password, as costly as the costliest that is stored."""
        import bcrypt

        rounds = [_rounds(secret) for secret in self._stored.values() if is_hash(secret)]
        cheap = bcrypt.hashpw(b"decoy", bcrypt.gensalt(4)).decode()
        # The cost is what takes the time; making a salt and digest of that cost would, too.
        return f"$2b${max(rounds, default=ROUNDS):02d}${cheap[7:]}"


def _check(given: bytes, hashed: str) -> bool:
    import bcrypt

    # Too long a password is nobody's, but refusing it must take as long as another.
    matches = bcrypt.checkpw(given[:MAX_BYTES], hashed.encode())
    return matches and len(given) <= MAX_BYTES


def _rounds(stored: Secret) -> int:
    return int(stored.reveal()[4:6])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
