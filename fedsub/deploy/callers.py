"""Callers: devices whose key is registered, each call with a signature of its own.

Flower's SuperNodes sign the time, in a header of each call. Flower takes that signature for any
call, as often as it comes, for 305 s. Here it is good for one call. It does not say which: whoever
reads a call inside TLS, and keeps it from arriving, could send another in its place.

All this is known from the headers, before anything else of a call has come.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from fedsub_core.flower.superlink import STAMP_SECONDS

#: Seconds after which keys are read anew: when all are known, and when one is not.
KNOWN_SECONDS, UNKNOWN_SECONDS = 5.0, 1.0
#: Calls of one key at once, and seconds in which one has to be complete: 32 MiB at 1 Mbit/s.
CALLS_EACH, CALL_SECONDS = 64, 300.0
#: What is said to who asks to be let in with another key.
UNREGISTERED = (
    "Failed to activate SuperNode: its public key is not registered; keys must be registered via "
    "the CLI"
)
#: Signatures that are remembered of one key; who signs more in 310 s is refused.
MOST_SIGNATURES = 50_000


@dataclass(frozen=True)
class Signed:
    """The signature in a call's headers: the key, the time that it signs, and the signature."""

    key: bytes
    stamp: str
    signature: bytes


class UsedSignatures:
    """Used signatures, kept as long as Flower accepts the time that they sign."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[bytes, OrderedDict[tuple[str, int], float]] = {}

    def use(self, signed: Signed) -> bool:
        """Return whether a verified signature is new, and note it as used."""
        # Of one ECDSA signature anybody can make a second, which has the same first number.
        mark = signed.stamp, decode_dss_signature(signed.signature)[0]
        now, used = self._clock(), self._used.setdefault(signed.key, OrderedDict())
        while used and now - next(iter(used.values())) > STAMP_SECONDS:
            used.popitem(last=False)
        if mark in used or len(used) >= MOST_SIGNATURES:
            return False
        used[mark] = now
        return True


class Callers:
    """The registered keys, and what each has signed.

    Parameters
    ----------
    registered : reads the public keys that are registered; None: any may call.
    pool : where it is read.
    """

    def __init__(
        self,
        registered: Callable[[], Iterable[bytes]] | None,
        pool: Executor | None = None,
    ) -> None:
        self._registered, self._pool = registered, pool
        self._known: frozenset[bytes] = frozenset()
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()
        self._used, self._open = UsedSignatures(), Counter[bytes]()

    def use(self, signed: Signed) -> bool:
        """Return whether a verified signature is new, and note it as used."""
        return self._used.use(signed)

    def enter(self, key: bytes) -> bool:
        """Count one more open call of a key; False if it has too many."""
        if self._open[key] >= CALLS_EACH:
            return False
        self._open[key] += 1
        return True

    def leave(self, key: bytes) -> None:
        """Count a call as answered, which :meth:`enter` counted as open."""
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]

    async def know(self, key: bytes) -> bool:
        """Return whether a key is registered."""
        if self._registered is None:
            return True
        await self._read(KNOWN_SECONDS)
        if key not in self._known:
            # It may have been registered just now. All whose keys are not known wait for one look.
            await asyncio.sleep(max(0.0, UNKNOWN_SECONDS - self._age()))
            # What was read before the wait is that old by now, or nearly: uvloop wakes a bit early.
            await self._read(UNKNOWN_SECONDS / 2)
        return key in self._known

    def _age(self) -> float:
        return time.monotonic() - self._read_at

    async def _read(self, seconds: float) -> None:
        """Read the registered keys, unless they were read in the last so many seconds."""
        if self._registered is None or self._age() < seconds:
            return
        async with self._lock:
            if self._age() < seconds:
                return
            begun, loop = time.monotonic(), asyncio.get_running_loop()
            self._known = frozenset(await loop.run_in_executor(self._pool, self._registered))
            self._read_at = begun
