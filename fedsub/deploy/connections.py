"""Devices' connections, and which of them end: those that stand idle, and those without proof.

One is *proven* once a call on it was signed by a registered key (`callers.py`). Strangers have few
unproven ones, each for seconds: the oldest makes room for the next. Proven ones are bounded for
each key. So who has no key takes nobody's place, and the process never runs out of descriptors.
"""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address

#: Unproven connections of one address, and seconds in which one has to be proven.
UNPROVEN_EACH, PROOF_SECONDS = 256, 20.0
#: Calls refused on one that is unproven, after which it ends.
MOST_REFUSED = 16
#: Connections that calls of one key came on.
CONNECTIONS_EACH = 32
#: Seconds in which something has to come of a call that has begun, or to be taken of an answer.
STALL_SECONDS = 30.0
#: A connection takes three descriptors: the device's, and both ends behind it. The database, logs
#: and answers to others need some, too.
DESCRIPTORS_EACH, DESCRIPTORS_KEPT, MOST_DESCRIPTORS = 3, 300, 65_536


def raise_descriptors() -> int:
    """Raise this process's limit of open descriptors as far as it may; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a bound that it does not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def most_connections() -> int:
    """Return the number of connections that this process can hold, its limit raised."""
    return max(1, (raise_descriptors() - DESCRIPTORS_KEPT) // DESCRIPTORS_EACH)


def address_of(host: str) -> str:
    """Return the address to which a connection counts; of IPv6 its network of 64 bits.

    Whoever has one address there has all of the network.
    """
    with suppress(ValueError):
        found = ip_address(host.partition("%")[0])
        if isinstance(found, IPv6Address):
            if found.ipv4_mapped:
                return str(found.ipv4_mapped)
            return str(IPv6Address(int(found) >> 64 << 64))
    return host


class Connection:
    """A device's connection.

    Attributes
    ----------
    address : to which it counts (:func:`address_of`).
    since, heard : when it came, and when something last came on it, s.
    key : the registered key that has signed a call on it; None: it is unproven.
    incomplete : calls of which something is still to come.
    refused : calls that were refused on it.
    full_since : since when the device takes nothing of an answer, s; None: it takes all.
    """

    def __init__(self, address: str, end: Callable[[], None], now: float) -> None:
        self.address, self.end, self.since, self.heard = address, end, now, now
        self.key: bytes | None = None
        self.incomplete = self.refused = 0
        self.full_since: float | None = None


class Connections:
    """The register of all connections, which ends some to keep its bounds."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._most, self._each = most, max(1, min(UNPROVEN_EACH, most // 2))
        #: In the order in which they came.
        self._all: dict[Connection, None] = {}
        self._by_port: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, host: str, end: Callable[[], None]) -> Connection | None:
        """Register a connection and return it; another may end for it. None: no place is left."""
        address = address_of(host)
        unproven = [one for one in self._all if one.key is None]
        own = [one for one in unproven if one.address == address]
        if len(own) >= self._each:
            self._end(own[0])
        elif len(self._all) >= self._most:
            if not unproven:
                return None
            ((whose, _),) = Counter(one.address for one in unproven).most_common(1)
            self._end(next(one for one in unproven if one.address == whose))
        made = Connection(address, end, self.clock())
        self._all[made] = None
        return made

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._all.pop(connection, None)

    def place(self, port: int, connection: Connection | None) -> None:
        """Note the relay's own port from which a connection goes on; None: the port is free."""
        if connection is None:
            self._by_port.pop(port, None)
        else:
            self._by_port[port] = connection

    def at(self, port: int) -> Connection | None:
        """Return the connection that goes on from a port of the relay; None: there is none."""
        return self._by_port.get(port)

    def prove(self, connection: Connection, key: bytes) -> None:
        """Mark a connection as proven: a registered key has signed a call on it."""
        if connection.key == key:
            return
        connection.key = key
        own = [one for one in list(self._all) if one.key == key]
        for old in own[: max(0, len(own) - CONNECTIONS_EACH)]:
            self._end(old)

    def refused(self, connection: Connection) -> None:
        """Count a refused call; an unproven connection ends after :data:`MOST_REFUSED`."""
        connection.refused += 1
        if connection.key is None and connection.refused >= MOST_REFUSED:
            self._end(connection)

    @contextmanager
    def awaiting(self, connection: Connection) -> Iterator[None]:
        """Count a call as incomplete while the context lasts."""
        connection.incomplete += 1
        connection.heard = self.clock()
        try:
            yield
        finally:
            connection.incomplete -= 1

    def end_idle(self) -> None:
        """End connections that are not proven in time, and those on which a call stalls."""
        now = self.clock()
        for one in list(self._all):
            stalled = one.incomplete > 0 and now - one.heard > STALL_SECONDS
            full = one.full_since is not None and now - one.full_since > STALL_SECONDS
            late = one.key is None and now - one.since > PROOF_SECONDS
            if late or stalled or full:
                self._end(one)

    def _end(self, connection: Connection) -> None:
        self.remove(connection)
        connection.end()
