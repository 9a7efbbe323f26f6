"""How much each of a person's candidates counts, and how sure they are together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import TEMPERATURES
from fedsub_core.closed_form.prior import Prior, admitted
from fedsub_core.closed_form.stacking import (
    Equations,
    log_losses,
    mixing_weights,
    normal_equations,
)

Floats = NDArray[np.float64]

#: Of temperatures whose loss is so many nats a sample above the least, or less, the smallest is
#: taken: samples that are left out are more like the others than what comes later is. Of so few
#: samples half as much is tolerated: heads without some of them are much less sure as it is.
TOLERATED, FEW = 0.02, 30.0


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A person's samples, of which candidates said what they are without having seen them.

    Parameters
    ----------
    y : int64 [n], labels; of a target float32, places in its range.
    targets : [n, classes], of candidates.
    known : bool [n], whether there was another of the class.
    root : [n], of how much each sample counts; None: all once.
    """

    y: NDArray[Any]
    targets: Floats
    known: NDArray[np.bool_]
    root: Floats | None

    @property
    def of_target(self) -> bool:
        """Whether samples have places in a target's range, no labels."""
        return self.y.dtype.kind == "f"

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

        def mixed(by: Prior) -> tuple[Floats, Floats, Equations]:
            believed = by.of(each, heads)
            weights = _mixture(mine + believed, heads, by)
            losses = self._losses(np.tensordot(weights, said, 1), closed)
            both = (losses + believed.losses) / (self.samples + believed.samples)
            return weights, both, replace(mine, losses=losses)

        weights, losses, own = mixed(prior)
        tolerated = TOLERATED * self.samples / (self.samples + FEW)
        calm = np.flatnonzero(losses <= losses.min() + tolerated)[0]
        if self.of_target:
            calm = TEMPERATURES.index(1.0)  # least squares need none
        if prior.pooled is not None:
            # What is pooled follows from samples alone: of who is forgotten nothing stays in it.
            own = mixed(Prior())[2]
        return weights, TEMPERATURES[calm], own

    def _losses(self, said: Floats, closed: Floats) -> Floats:
        said, y, root = said[self.known], self.y[self.known], self.root
        if self.of_target:  # squared errors of places in the range, as of both outputs half
            error = ((said - self.targets[self.known]) ** 2).sum() / 2
            return np.full(len(TEMPERATURES), error)
        if root is None:
            return log_losses(said, y, closed)
        root = root[self.known]
        return log_losses(said / root[:, None], y, closed, root**2)


def _mixture(of: Equations, heads: str, prior: Prior) -> Floats:
    """Return the weight of each candidate, [K]: the default where none is of any good."""
    candidates = len(of.target)
    some, mixed = admitted(candidates, heads), np.zeros(candidates)
    mixed[some] = mixing_weights(of.gram[np.ix_(some, some)], of.target[some])
    return mixed if mixed.any() else prior.default(candidates, heads)
