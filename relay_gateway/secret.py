"""``Secret``: a credential that does not print, compare or serialise by accident."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any, Final, NoReturn

MASK = "<secret>"
_FINGERPRINT_KEY: Final = os.urandom(32)


class Secret:
    """Holds one credential. Only :meth:`reveal` gives it out, so every use can be found by name.

    ``repr``, ``str``, f-strings and ``%s`` show a mask that tells nothing, not even the length.
    Pickling and copying are refused; ``==`` is refused because it would leak by time: use
    :meth:`matches`.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The credential itself, for the one place that must put it on a wire or into a cipher."""
        return self._value

    def matches(self, candidate: str) -> bool:
        """Whether ``candidate`` is this secret, in time that does not depend on where they
        differ."""
        return hmac.compare_digest(self._value.encode(), candidate.encode())

    def fingerprint(self) -> bytes:
        """What tells this value from another one, in this process and its children only.

        It is made with a key that nobody else has, so nothing can be tried out against it.
        """
        return hashlib.blake2b(self._value.encode(), digest_size=16, key=_FINGERPRINT_KEY).digest()

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("secrets are compared with Secret.matches(), not with ==")

    __hash__ = object.__hash__

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret does not give out its state")
