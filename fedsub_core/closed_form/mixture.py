"""How much each of a person's candidates counts, and how sure they are together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import TEMPERATURES
from fedsub_core.closed_form.prior import Prior, admitted, default_weights
from fedsub_core.closed_form.stacking import (
    Equations,
    log_losses,
    mixing_weights,
    normal_equations,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A person's samples, of which candidates said what they are without having seen them.

    Parameters
    ----------
    y : int64 [n], labels.
    targets : [n, classes], of candidates.
    known : bool [n], whether there was another of the class.
    root : [n], of how much each sample counts; None: all once.
    """

    y: NDArray[np.int64]
    targets: Floats
    known: NDArray[np.bool_]
    root: Floats | None

    @property
    def samples(self) -> float:
        """As how many samples they count."""
        return len(self.y) if self.root is None else float((self.root**2).sum())

    def mixture(
        self, said: Floats, heads: str, prior: Prior, closed: Floats
    ) -> tuple[Floats, float, Equations]:
        """Return candidates' weights [K], their temperature, and the samples' own equations.

        Parameters
        ----------
        said : [K, n, classes], what candidates say.
        heads : which of them may be mixed.
        prior : what is believed before these samples.
        closed : [classes], what is added to scores.
        """
        gram, target = normal_equations(said[:, self.known], self.targets[self.known])
        mine = Equations(self.samples, gram, target, np.zeros(len(TEMPERATURES)))
        each = np.tensordot(said, said, ((1, 2), (1, 2))) / max(self.samples, 1.0)
        default = default_weights(len(said), heads)

        def mixed(by: Prior) -> tuple[Floats, Equations]:
            weights = _mixture(mine + by.of(each, default), heads, default)
            return weights, Equations(
                self.samples, gram, target, self._losses(np.tensordot(weights, said, 1), closed)
            )

        weights, own = mixed(prior)
        temperature = TEMPERATURES[(own + prior.of(each, default)).losses.argmin()]
        # What is pooled follows from samples alone: of whoever is forgotten nothing stays in it.
        return weights, temperature, own if prior.pooled is None else mixed(Prior())[1]

    def _losses(self, said: Floats, closed: Floats) -> Floats:
        said, y, root = said[self.known], self.y[self.known], self.root
        if root is None:
            return log_losses(said, y, closed)
        root = root[self.known]
        return log_losses(said / root[:, None], y, closed, root**2)


def _mixture(of: Equations, heads: str, default: Floats) -> Floats:
    """Return how much each candidate counts, [K]; as by default where nothing says any good."""
    some = admitted(len(default), heads)
    mixed = np.zeros(len(default))
    mixed[some] = mixing_weights(of.gram[np.ix_(some, some)], of.target[some])
    return mixed if mixed.any() else default
