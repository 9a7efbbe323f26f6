"""A client's own samples beside sums over people: what the sums lack of them, and solved sums."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Scale, Shared
from fedsub_core.closed_form.sending import Portable, Rounded
from fedsub_core.closed_form.sums import Statistics, statistics
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_ridge import CROSS, GRAM, HELD
from fedsub_core.wire.bundles import Bundle

#: Sums that are kept solved while a stack's clients take turns.
KEPT = 32


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

    @property
    def version(self) -> int:
        """A name of these samples."""
        return self._version(len(self.y))

    @property
    def statistics(self) -> Statistics:
        """Their statistics, exact."""
        return statistics(self.x, self.y, self.classes)

    def lacks(self, bundle: Bundle) -> Statistics | None:
        """Return what sums must be given to hold these samples once; None: they do.

        Of samples that the server holds of this person and that were not the first of these, the
        device knows nothing any more: they stay in the sums beside these.
        """
        held, counted = (int(n) for n in bundle.floats(HELD))
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
    """Sums that several clients of a stack are sent, each solved once."""

    def __init__(self) -> None:
        self._solved: dict[bytes, Shared] = {}

    def sums(self, bundle: Bundle, name: str, lacks: Statistics | None) -> Shared:
        """Return sums of a download, with what a client's own samples lack in them."""
        gram, cross = (bundle.floats(f"{name}.{part}") for part in (GRAM, CROSS))
        exponent = int(bundle.floats(f"{name}.exponent")[0])
        if lacks is not None:
            sums = Portable(gram, cross, exponent).sums() + lacks
            return Shared(Scale.of(sums), sums)
        digest = hashlib.blake2b(digest_size=16)
        for array in (gram, cross, np.array(exponent)):
            digest.update(np.ascontiguousarray(array).tobytes())
        key = digest.digest()
        if key not in self._solved:
            sums = Portable(gram, cross, exponent).sums()
            while len(self._solved) >= KEPT:
                del self._solved[next(iter(self._solved))]
            self._solved[key] = Shared(Scale.of(sums), sums)
        return self._solved[key]
