"""Candidate heads of one person, and what each would say of samples that it had not seen.

A candidate is a ridge head ``W = (A + lam I)^-1 B`` on sums ``A``, ``B`` in which the person's own
samples weigh `own` times; what it says of samples that were left out is known without fitting anew
(:mod:`fedsub_core.closed_form.left_out`). Written with kernels of the person's own samples, as
Gaussian processes are (Rasmussen and Williams 2006, 5.12): residuals over ``1 - leverage`` lose all
digits where a head interpolates, and with more features than samples it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from fedsub_core.closed_form.grids import OWN_WEIGHTS, PENALTIES, WITH_OTHERS
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.scale import Floats, Samples, Scale
from fedsub_core.closed_form.sums import Statistics


@dataclass(frozen=True, eq=False)
class Shared:
    """Sums of several people, solved once for all of them: an eigendecomposition.

    Parameters
    ----------
    scale : of the features.
    sums : of everybody whose samples they hold, the person's own among them.
    """

    scale: Scale
    sums: Statistics

    _solved: list[tuple[Floats, Floats, Floats]] = field(init=False, default_factory=list)
    _lock: Lock = field(init=False, default_factory=Lock)

    @property
    def solved(self) -> tuple[Floats, Floats, Floats]:
        """Eigenvalues [D + 1] and vectors [D + 1, D + 1] of ``A``; ``B`` in them."""
        with self._lock:  # the first thread solves, all others wait for it
            if not self._solved:
                a, b = self.scale.moments(self.sums)
                values, vectors = np.linalg.eigh(a)
                self._solved.append((np.maximum(values, 0), vectors, vectors.T @ b))
        return self._solved[0]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Heads that differ in `penalty` and own weight, all on the same sums.

    Parameters
    ----------
    said : [K, n, classes], what each says of the person's samples, block by block left out. Where
        samples count in part: times the root of how much.
    dual : [K, n, classes], by which each sample moves the head.
    shared : on whose sums; None: the person's own alone.
    penalties : [K].
    scale : of the features.
    """

    said: Floats
    dual: Floats
    shared: Shared | None
    penalties: Floats
    scale: Scale

    @property
    def nbytes(self) -> int:
        """What they take, without the sums that others share."""
        return self.said.nbytes + self.dual.nbytes

    def head(self, mixed: Floats, samples: Samples) -> tuple[Floats, Floats]:
        """Return the candidates' sum, each `mixed` [K] times: weight [classes, D], bias.

        `samples` are the person's once more: they are not kept beside what follows of them.
        """
        return self.scale.unscaled(self._weights(mixed, samples.scaled(self.scale)))

    def _weights(self, mixed: Floats, rows: Floats) -> Floats:
        if self.shared is None:
            return rows.T @ np.tensordot(mixed / self.penalties, self.dual, 1)
        values, vectors, b = self.shared.solved
        head = np.zeros_like(b)
        of = np.where(self.penalties == np.unique(self.penalties)[:, None], mixed, 0.0)
        of = of[of.any(1)]
        if not len(of):
            return vectors @ head
        # All penalties at once: the vectors are more than a core's cache holds.
        each = np.concatenate([np.tensordot(here, self.dual, 1) for here in of], 1)
        moved = np.split(vectors.T @ (rows.T @ each), len(of), 1)
        for here, one in zip(of, moved, strict=True):
            penalty = self.penalties[here != 0][0]
            head += (here.sum() * b + one) / (values + penalty)[:, None]
        return vectors @ head


@dataclass(frozen=True, eq=False)
class Span:
    """Samples in as few directions as they have: no more than features, however many they are.

    Parameters
    ----------
    scale : of the features.
    directions : orthonormal, [n, m]; None: the samples themselves, m = n.
    rows : the scaled samples along these, [m, D + 1].
    values, vectors : eigenvalues [m] and vectors [m, m] of these rows' products.
    """

    scale: Scale
    directions: Floats | None
    rows: Floats
    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, samples: Samples, scale: Scale) -> Span:
        """Return the span of a person's samples."""
        directions, rows = None, samples.scaled(scale)
        if len(rows) > rows.shape[1]:
            directions, rows = np.linalg.qr(rows)
        values, vectors = np.linalg.eigh(rows @ rows.T)
        return cls(scale, directions, rows, np.maximum(values, 0), vectors)

    def among_samples(self, along: Floats) -> Floats:
        """Return numbers of the samples [n, ...], given along the directions [m, ...]."""
        return along if self.directions is None else self.directions @ along

    def rest(self, basis: Floats, targets: Floats) -> Floats:
        """Return the part of targets [n, classes] that no head could say: 0 of a whole `basis`."""
        if self.directions is None:
            return np.zeros_like(targets)
        return targets - basis @ (basis.T @ targets)


def alone(span: Span, targets: Floats, blocks: Blocks) -> Candidates:
    """Return heads on the person's own samples alone.

    Parameters
    ----------
    span : of the n samples.
    targets : [n, classes], 1 for a sample's class and -1 for all others; where samples count in
        part, times the root of how much.
    blocks : of samples that are left out together.
    """
    basis = span.among_samples(span.vectors)
    y, rest = basis.T @ targets, span.rest(basis, targets)
    inverse = 1 / (span.values / np.array(PENALTIES)[:, None] + 1)
    pull = inverse[:, :, None] * y
    said = targets - blocks.residuals(basis, inverse, basis @ pull + rest, np.ones(len(inverse)))
    return Candidates(said, basis @ pull, None, np.array(PENALTIES), span.scale)


def with_others(span: Span, targets: Floats, shared: Shared, blocks: Blocks) -> Candidates:
    """Return heads on sums that hold the person's own samples and others'.

    The head without the person's samples is a prior of the head with them: own samples then add
    what they say beyond it, at each own weight, with one eigendecomposition a penalty.

    Parameters
    ----------
    span : of the person's samples, in the scale of `shared`.
    """
    values, vectors, b = shared.solved
    turned = span.rows @ vectors
    # Sums that hold the own samples give these no more leverage than they have alone (Weyl), if
    # nothing was rounded: what was, might say that a head without them is infinite.
    own_weights = np.array(OWN_WEIGHTS)[:, None]
    said, dual = [], []
    for penalty in WITH_OTHERS:
        # Of own samples, on sums that hold them. (A matrix times itself is half the work.)
        root = turned / np.sqrt(values + penalty)
        leverage, along = np.linalg.eigh(root @ root.T)
        basis = span.among_samples(along)
        left = np.maximum(1 - leverage, penalty / (penalty + span.values))
        y = basis.T @ targets
        said_now = along.T @ (turned @ (b / (values + penalty)[:, None]))
        rest = span.rest(basis, targets)
        prior = (said_now - (1 - left)[:, None] * y) / left[:, None]  # of the head without them
        inverse = 1 / ((1 - left) / left + 1 / own_weights)
        pull = inverse[:, :, None] * (y - prior)
        pulls = basis @ pull + own_weights[:, :, None] * rest
        said.append(targets - blocks.residuals(basis, inverse, pulls, own_weights[:, 0]))
        # With the leverage as it is: of sums that were rounded it may be over 1, and a head by any
        # other would be no head on these sums.
        more = (own_weights - 1) / (1 + (own_weights - 1) * leverage)
        dual.append(basis @ (more[:, :, None] * (y - said_now)))
    penalties = np.repeat(WITH_OTHERS, len(OWN_WEIGHTS))
    both = np.concatenate(said), np.concatenate(dual)
    return Candidates(*both, shared, penalties, shared.scale)
