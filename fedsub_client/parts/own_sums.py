"""A client's own samples beside sums over people: what the sums lack of them, and solved sums."""

from __future__ import annotations

import hashlib
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Scale, Shared
from fedsub_core.closed_form.sending import Portable, Rounded
from fedsub_core.closed_form.sums import Statistics, statistics
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_ridge import CROSS, GRAM, HELD
from fedsub_core.wire.bundles import Bundle, Part

#: Bytes of sums that this process keeps solved for the next client that is sent them.
KEPT_BYTES = 2**28
_solved: dict[bytes, Shared] = {}
_lock = Lock()


class Own:
    """One client's samples of a stack, and its statistics.

    Parameters
    ----------
    x, y : features [n, D], labels [n].
    classes : how many there are.
    """

    def __init__(self, data: Stack, i: int, classes: int) -> None:
        n = data.counts[i]
        self.x: NDArray[np.float32] = data.x[i, :n].flatten(1).cpu().numpy()
        self.y: NDArray[np.int64] = data.y[i, :n].cpu().numpy()
        self.classes = classes

    @cached_property
    def version(self) -> int:
        """A name of these samples."""
        return self._version(len(self.y))

    @property
    def statistics(self) -> Statistics:
        """Their statistics, exact."""
        return statistics(self.x, self.y, self.classes)

    def answered(self, bundle: Bundle) -> bool:
        """Return whether the server has equations of these samples for the sums in a download."""
        return bundle.version == self.version and bool(bundle.floats(HELD)[2])

    def lacks(self, bundle: Bundle) -> Statistics | None:
        """Return what sums must be given to hold these samples once; None: they do.

        Of samples that the server holds of this person and that were not the first of these, the
        device knows nothing any more: they stay in the sums beside these.
        """
        held, counted, _ = (int(n) for n in bundle.floats(HELD))
        if bundle.version == self.version:
            if counted >= held:
                return None
            old = len(self.y)
        elif 0 < held < len(self.y) and bundle.version == self._version(held):
            old = held
        else:
            return self.statistics
        before = statistics(self.x[:old], self.y[:old], self.classes)
        return self.statistics - Rounded.of(before).counted(held, counted)

    def _version(self, samples: int) -> int:
        digest = hashlib.blake2b(digest_size=8)
        digest.update(np.ascontiguousarray(self.x[:samples]).tobytes())
        digest.update(self.y[:samples].tobytes())
        return (int.from_bytes(digest.digest(), "little") >> 1) or 1


class KnownSums:
    """Sums that several clients of a process are sent, each solved once."""

    def __init__(self) -> None:
        #: By what stands in a stack's downloads, which are often one and the same.
        self._sent: dict[tuple[int, ...], tuple[list[Part], Shared]] = {}

    def sums(self, bundle: Bundle, name: str, lacks: Statistics | None) -> Shared:
        """Return sums of a download, with what a client's own samples lack in them."""
        names = [f"{name}.{part}" for part in (GRAM, CROSS, "exponent")]
        parts = [bundle.tensors[name] for name in names]
        key = tuple(map(id, parts))
        if lacks is None and key in self._sent:
            return self._sent[key][1]
        gram, cross, exponent = map(bundle.floats, names)
        sent = Portable(gram, cross, int(exponent[0]))
        if lacks is not None:
            sums = sent.sums() + lacks
            return Shared(Scale.of(sums), sums)
        shared = _known(sent)
        self._sent[key] = parts, shared
        return shared


def _known(sent: Portable) -> Shared:
    """Return these sums, the same object to all who are sent the same."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (sent.gram, sent.cross, np.array(sent.exponent)):
        digest.update(np.ascontiguousarray(array).tobytes())
    key = digest.digest()
    with _lock:
        if (found := _solved.pop(key, None)) is None:
            sums = sent.sums()
            found = Shared(Scale.of(sums), sums)
        _solved[key] = found  # behind all others: those go first
        while len(_solved) > 1 and sum(map(_bytes, _solved.values())) > KEPT_BYTES:
            del _solved[next(iter(_solved))]
    return found


def _bytes(shared: Shared) -> int:
    """Return what sums take: their vectors, and twice the sums themselves."""
    return 24 * (shared.sums.features + 1) ** 2
