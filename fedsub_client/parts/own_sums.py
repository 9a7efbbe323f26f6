"""A client's own samples beside sums over people: what the sums lack of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import STRETCHES
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import Statistics, one_hot, recency, statistics
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.method_parts.ridge_tensors import HELD
from fedsub_core.pytorch import as_numpy
from fedsub_core.wire.bundles import Bundle


@dataclass(frozen=True, eq=False)
class There:
    """The samples of a client that sums hold.

    Parameters
    ----------
    version : its name for the samples; 0: there are none.
    counted : as how many they count.
    classes : of which classes the sums hold any, bool [classes]; None: of all.
    """

    version: int = 0
    samples: int = 0
    counted: int = 0
    classes: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, bundle: Bundle) -> There:
        """Return the samples that a download names."""
        held, counted, _ = (int(n) for n in bundle.floats(HELD))
        return cls(bundle.version, held, counted)


class Own:
    """One client's samples of a stack, and its statistics.

    Parameters
    ----------
    x, y : features [n, D], labels [n]; or float32 [n], places in a target's range.
    forgetting : how much a sample counts of what the next newer of its class does.
    stretches : into how many each class's samples are cut that are left out at once; 0: singles.
    """

    def __init__(
        self, data: Stack, i: int, classes: int, forgetting: float = 1.0, stretches: int = STRETCHES
    ) -> None:
        n = data.counts[i]
        x = as_numpy(inputs(data.x[i, :n]))
        self.x: NDArray[np.float32] = x.reshape(n, prod(x.shape[1:]))
        self.y: NDArray[Any] = as_numpy(data.y[i, :n])
        self.classes, self.stretches, self._forgetting = classes, stretches, forgetting

    @cached_property
    def name(self) -> tuple[float, ...]:
        """What tells them, and how they count, from all others: candidates follow from it."""
        how = self.classes, self._forgetting, self.stretches
        return self.version, *self.x.shape, *how

    @cached_property
    def version(self) -> int:
        """A name of these samples."""
        return self._version(len(self.y))

    @cached_property
    def weights(self) -> NDArray[np.float64] | None:
        """How much each sample counts, [n]; None: all once."""
        return self._weights(len(self.y))

    @property
    def counted(self) -> int:
        """As how many samples they count together."""
        return len(self.y) if self.weights is None else round(self.weights.sum())

    @property
    def statistics(self) -> Statistics:
        """Their statistics, exact."""
        return self._statistics(len(self.y))

    def answered(self, bundle: Bundle) -> bool:
        """Return whether the server has equations of these samples for the sums in a download."""
        return bundle.version == self.version and bool(bundle.floats(HELD)[2])

    def lacks(self, there: There) -> Statistics | None:
        """Return the statistics that sums lack to hold these samples once; None: they do.

        Of samples that the server holds of this person and that were not the first of these, the
        device knows nothing any more: they stay in the sums beside these.
        """
        if there.version == self.version:
            lacking = there.classes is not None and not there.classes[self.held()].all()
            if there.counted >= there.samples and not lacking:
                return None
            old: int | None = len(self.y)
        else:
            old = self._before(there.version, there.samples)
        if old is None:
            return self.statistics
        inside = Rounded.of(self._statistics(old, there.classes))
        return self.statistics - inside.counted(there.samples, there.counted)

    def held(self) -> NDArray[np.bool_]:
        """Return of which classes there are samples, bool [classes]."""
        return np.asarray(one_hot(self.y, self.classes).any(0))

    def of_classes(self, classes: NDArray[np.bool_]) -> Statistics:
        """Return the statistics of the samples of some classes, bool [classes]."""
        return self._statistics(len(self.y), classes)

    def _before(self, version: int, held: int) -> int | None:
        """Return the number of first samples that have a name; None: none have.

        `held` is as how many they counted: all once if nothing is forgotten.
        """
        plain = self._forgetting == 1
        some = [held] if plain else range(held, len(self.y))
        lengths = (n for n in some if 0 < n < len(self.y) and version == self._version(n))
        return next(lengths, None)

    def _statistics(self, samples: int, classes: NDArray[np.bool_] | None = None) -> Statistics:
        """Return the statistics of the first so many samples; of some classes' alone."""
        x, y, weights = self.x[:samples], self.y[:samples], self._weights(samples)
        if classes is not None and self.y.dtype.kind != "f" and not classes[y].all():
            some = classes[y]
            x, y, weights = x[some], y[some], None if weights is None else weights[some]
        return statistics(x, y, self.classes, weights)

    def _weights(self, samples: int) -> NDArray[np.float64] | None:
        return None if self._forgetting == 1 else recency(self.y[:samples], self._forgetting)

    def _version(self, samples: int) -> int:
        digest = hashlib.blake2b(digest_size=8)
        digest.update(np.ascontiguousarray(self.x[:samples]).tobytes())
        digest.update(self.y[:samples].tobytes())
        return (int.from_bytes(digest.digest(), "little") >> 1) or 1
