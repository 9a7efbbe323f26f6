"""A client's own samples beside sums over people: what the sums lack of them, and solved sums."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import Scale, Shared
from fedsub_core.closed_form.grids import STRETCHES
from fedsub_core.closed_form.personal import Solved
from fedsub_core.closed_form.possible import sound
from fedsub_core.closed_form.sending import Portable, Rounded
from fedsub_core.closed_form.sums import Statistics, recency, statistics
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.ridge_tensors import CROSS, GRAM, HELD
from fedsub_core.wire.bundles import Bundle, Part

#: Bytes of what this process keeps solved: sums for the next client that is sent them, and what
#: clients' candidates on them say of their samples (0.4 MB of 140 samples of six classes).
KEPT_BYTES = 2**29
_solved: dict[bytes, Known] = {}
_lock = Lock()


@dataclass(frozen=True, eq=False)
class There:
    """The samples of a client that sums hold.

    Parameters
    ----------
    version : its name for the samples; 0: there are none.
    samples : how many they were.
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
    x, y : features [n, D], labels [n].
    classes : how many there are.
    forgetting : how much a sample counts of what the next newer of its class does.
    stretches : into how many each class's samples are cut that are left out at once; 0: singles.
    """

    def __init__(
        self, data: Stack, i: int, classes: int, forgetting: float = 1.0, stretches: int = STRETCHES
    ) -> None:
        n = data.counts[i]
        self.x: NDArray[np.float32] = data.x[i, :n].flatten(1).cpu().numpy()
        self.y: NDArray[np.int64] = data.y[i, :n].cpu().numpy()
        self.classes, self.stretches, self._forgetting = classes, stretches, forgetting

    @property
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
            lacking = there.classes is not None and not there.classes[self.y].all()
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
        return np.bincount(self.y, minlength=self.classes) > 0

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
        if classes is not None and not classes[y].all():
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


class Known:
    """Sums that came, and what clients of this process have solved on them.

    New equations come for the same sums: what a person's candidates say of its samples stays.
    """

    def __init__(self, sums: Statistics) -> None:
        self.shared = Shared(Scale.of(sums), sums)
        #: What stands here takes: the sums' vectors, and twice the sums themselves.
        self.nbytes = 24 * (sums.features + 1) ** 2
        self._candidates: dict[tuple[float, ...], Solved] = {}

    @cached_property
    def sound(self) -> bool:
        """Whether samples can have led to these sums.

        Of how many people they are nobody says: what rounding may have done is that of people who
        have ten samples each.
        """
        sums = self.shared.sums
        return sound(sums, int(sums.counts.sum()) // 10 + 1)

    def candidates(self, own: Own) -> Solved:
        """Return the solved candidates of a client, on these sums and on its own alone."""
        return dict(self._candidates.get(own.name, {}))

    def keep(self, own: Own, solved: Solved) -> None:
        """Keep a client's candidates as far as there is room; those on others' sums are not."""
        some = {None: solved[None], self.shared: solved[self.shared]}
        size = sum(candidate.nbytes for both in some.values() for candidate in both)
        with _lock:
            here = any(self is known for known in _solved.values())
            if here and own.name not in self._candidates and _taken() + size <= KEPT_BYTES:
                self._candidates[own.name] = some
                self.nbytes += size


class KnownSums:
    """Sums that several clients of a process are sent, each solved once."""

    def __init__(self) -> None:
        #: By what stands in a stack's downloads, which are often one and the same.
        self._sent: dict[tuple[int, ...], tuple[list[Part], Known]] = {}

    def sums(self, bundle: Bundle, name: str, lacks: Statistics | None) -> Known:
        """Return sums of a download, with what a client's own samples lack in them."""
        names = [f"{name}.{part}" for part in (GRAM, CROSS, "exponent")]
        parts = [bundle.tensors[name] for name in names]
        key = tuple(map(id, parts))
        if lacks is None and key in self._sent:
            return self._sent[key][1]
        gram, cross, exponent = map(bundle.floats, names)
        sent = Portable(gram, cross, int(exponent[0]))
        if lacks is not None:
            return Known(sent.sums() + lacks)
        known = _known(sent)
        self._sent[key] = parts, known
        return known


def _known(sent: Portable) -> Known:
    """Return these sums, the same object to all who are sent the same."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (sent.gram, sent.cross, np.array(sent.exponent)):
        digest.update(np.ascontiguousarray(array).tobytes())
    key = digest.digest()
    with _lock:
        known = _solved.pop(key, None) or Known(sent.sums())
        _solved[key] = known  # behind all others: those go first
        while len(_solved) > 1 and _taken() > KEPT_BYTES:
            del _solved[next(iter(_solved))]
    return known


def _taken() -> int:
    return sum(known.nbytes for known in _solved.values())
