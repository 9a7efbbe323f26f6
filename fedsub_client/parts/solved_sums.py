"""What a process keeps solved: sums that came, and clients' candidates, to be used again."""

from __future__ import annotations

import hashlib
from functools import cached_property
from threading import Lock

import numpy as np

from fedsub_client.parts.own_sums import Own
from fedsub_core.closed_form.candidates import Candidates, Shared
from fedsub_core.closed_form.personal import Solved
from fedsub_core.closed_form.possible import sound
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Portable
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.method_parts.ridge_tensors import CROSS, GRAM
from fedsub_core.wire.bundles import Bundle, FloatArray, Part

#: Bytes of what this process keeps solved: sums for the next client that is sent them, and what
#: clients' candidates on them say of their samples (0.4 MB of 140 samples of six classes).
KEPT_BYTES = 2**29
#: And of what clients solved on own samples alone (0.13 MB each): what came last stays.
ALONE_BYTES = 3 * 2**26
#: By a client's samples (:attr:`Own.name`).
BySamples = dict[tuple[float, ...], tuple[Candidates, ...]]
_solved: dict[bytes, Known] = {}
_lock = Lock()


class Known:
    """Sums that came, and what clients of this process have solved on them.

    New equations come for the same sums: what a person's candidates say of its samples stays.
    """

    def __init__(self, sums: Statistics, gram: FloatArray | None = None) -> None:
        #: `gram` are the products as they came, by which others know the same sums.
        self.shared, self.gram = Shared(Scale.of(sums), sums), gram
        #: What stands here takes: the sums' vectors, twice the sums themselves, and `gram`.
        self.nbytes = 26 * (sums.features + 1) ** 2
        self._candidates: BySamples = {}

    @cached_property
    def sound(self) -> bool:
        """Whether samples can have led to these sums.

        Of how many people they are nobody says: what rounding may have done is that of people who
        have ten samples each.
        """
        sums = self.shared.sums
        return sound(sums, int(sums.counts.sum()) // 10 + 1)

    def candidates(self, own: Own) -> Solved:
        """Return the solved candidates of a client, on these sums and on its own samples alone."""
        found = ALONE.solved(own)
        if (here := self._candidates.get(own.name)) is not None:
            found.on[self.shared] = here
        return found

    def keep(self, own: Own, solved: Solved) -> None:
        """Keep a client's candidates as far as there is room; those on others' sums are not."""
        size = _bytes(solved.on[self.shared])
        with _lock:
            here = any(self is known for known in _solved.values())
            if here and own.name not in self._candidates and _taken() + size <= KEPT_BYTES:
                self._candidates[own.name] = solved.on[self.shared]
                self.nbytes += size


class KnownSums:
    """Sums that several clients of a process are sent, each solved once."""

    def __init__(self) -> None:
        #: By where the numbers of a stack's downloads stand, which are often one and the same.
        self._sent: dict[tuple[int, ...], tuple[list[Part], Known]] = {}

    def sums(self, bundle: Bundle, name: str, lacks: Statistics | None) -> Known:
        """Return sums of a download, with what a client's own samples lack in them."""
        names = [f"{name}.{part}" for part in (GRAM, CROSS, "exponent")]
        parts = [bundle.tensors[name] for name in names]
        key = tuple(part.values.__array_interface__["data"][0] for part in parts)
        if lacks is None and key in self._sent:
            return self._sent[key][1]
        gram, cross, exponent = map(bundle.floats, names)
        sent = Portable(gram, cross, int(exponent[0]))
        if lacks is not None:
            return Known(sent.sums() + lacks)
        known = _known(sent)
        self._sent[key] = parts, known
        return known


class Alone:
    """Clients' candidates and heads of own samples alone: those that came last."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._known: dict[tuple[float, ...], Solved] = {}

    def solved(self, own: Own) -> Solved:
        """Return the candidates and head of a client, as far as they are kept."""
        with _lock:
            found = self._known.get(own.name, Solved())
        return Solved(dict(found.on), found.alone)

    def keep(self, own: Own, solved: Solved) -> None:
        """Keep the candidates and head of a client."""
        with _lock:
            if own.name in self._known:
                return
            self._known[own.name] = Solved({None: solved.on[None]}, solved.alone)
            self.nbytes += _size(solved)
            while len(self._known) > 1 and self.nbytes > ALONE_BYTES:
                self.nbytes -= _size(self._known.pop(next(iter(self._known))))


#: This process's.
ALONE = Alone()


def _known(sent: Portable) -> Known:
    """Return these sums, the same object to all who are sent the same."""
    # To compare products is much faster than to hash them; class sums hardly ever are alike.
    digest = hashlib.blake2b(np.ascontiguousarray(sent.cross).tobytes(), digest_size=16)
    digest.update(np.array([sent.exponent, sent.gram.size]).tobytes())
    key = digest.digest()
    with _lock:
        known = _solved.pop(key, None)
        if known is None or known.gram is None or not np.array_equal(known.gram, sent.gram):
            known = Known(sent.sums(), sent.gram)
        _solved[key] = known  # behind all others: those go first
        while len(_solved) > 1 and _taken() > KEPT_BYTES:
            del _solved[next(iter(_solved))]
    return known


def _size(alone: Solved) -> int:
    return _bytes(alone.on[None]) + sum(part.nbytes for part in alone.alone or ())


def _bytes(candidates: tuple[Candidates, ...]) -> int:
    return sum(one.nbytes for one in candidates)


def _taken() -> int:
    return sum(known.nbytes for known in _solved.values())
