"""Login throttling: who fails too often waits, longer each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address

FREE_FAILURES = 5
WINDOW_SECONDS = 15 * 60.0
FIRST_DELAY_SECONDS = 5.0
LONGEST_DELAY_SECONDS = 30.0
MAX_REMEMBERED = 10_000


class LoginThrottle:
    """Counts failed logins of the last 15 minutes per user name and per address.

    An attempt counts as failed from its beginning until it is known not to be, so that attempts at
    once cannot outrun the count. ``monotonic`` gives seconds; a clock that is set changes nothing.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def begin(self, username: str, address: str) -> float | None:
        """Counts an attempt; or the seconds to wait before one, and nothing is counted."""
        now = self._monotonic()
        keys = throttle_keys(username, address)
        wait = max(self._wait(key, now) for key in keys)
        if wait > 0:
            return wait
        for key in keys:
            self._failures.setdefault(key, []).append(now)
            self._failures.move_to_end(key)
        while len(self._failures) > MAX_REMEMBERED:
            self._failures.popitem(last=False)
        return None

    def withdraw(self, username: str, address: str, *, succeeded: bool) -> None:
        """Takes one attempt back, which did not fail; a success forgets the failures of the
        name. Those of the address stay, or whoever has an account could try others for ever."""
        name, place = throttle_keys(username, address)
        self._drop_one(place)
        if succeeded:
            self._failures.pop(name, None)
        else:
            self._drop_one(name)

    def _wait(self, key: str, now: float) -> float:
        recent = [moment for moment in self._failures.get(key, ()) if moment > now - WINDOW_SECONDS]
        if not recent:
            self._failures.pop(key, None)
            return 0.0
        # No more than decide about the longest delay, so that a list stays short.
        self._failures[key] = recent[-(FREE_FAILURES + 8) :]
        return wait_seconds(recent, now)

    def _drop_one(self, key: str) -> None:
        moments = self._failures.get(key)
        if moments:
            moments.pop()


def wait_seconds(failures: Sequence[float], now: float) -> float:
    """How long to wait after ``failures`` of the last 15 minutes, oldest first; not above zero when
    an attempt may be made. All in seconds of one clock."""
    beyond = len(failures) - FREE_FAILURES
    if beyond < 0:
        return 0.0
    # Beyond ten the delay is at its longest, and a power of two above all numbers.
    delay = min(FIRST_DELAY_SECONDS * 2.0 ** min(beyond, 10), LONGEST_DELAY_SECONDS)
    return failures[-1] + delay - now


def throttle_keys(username: str, address: str) -> tuple[str, str]:
    """What failures are counted under: the user name, and the network of the address."""
    return f"name {username}", f"address {network_of(address)}"


def network_of(address: str) -> str:
    """The address, or the /64 that an IPv6 caller has to choose addresses from."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed) >> 64 << 64, 64)))
