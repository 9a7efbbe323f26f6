"""Means of a person's models over its rounds, which predict in their place: they swing less.

Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim.
30, 1992; with weights that fall exponentially. Any method may have them (``smooth``). What trains
and what is sent is as without them.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from fedsub_core.data.stacks import per_client

#: Before a name in the state: its mean.
MEAN = "mean."
#: Which classes a client had when its means were last made, float32 [clients, classes].
KNOWN = "known classes"
#: After so many rounds about half of them count.
SOON = 10


def smoothed(
    state: dict[str, Tensor], names: Collection[str], most: float, round: int
) -> dict[str, Tensor]:
    """Return new means of the tensors `names`: what a round adds is at least ``1 - most``.

    In a run's first rounds, when models still move far, it is more: all of it in the first.
    """
    kept = min(most, (round - 1) / (round - 1 + SOON))
    return {MEAN + name: torch.lerp(state[name], state[MEAN + name], kept) for name in names}


def begun_anew(
    state: dict[str, Tensor], means: dict[str, Tensor], which: Tensor
) -> dict[str, Tensor]:
    """Return the means; of the clients [clients] that `which` says, the `state`'s own tensors."""
    if not which.any():
        return means
    new = {name: state[name.removeprefix(MEAN)] for name in means}
    return {
        name: torch.where(per_client(which, mean), new[name], mean) for name, mean in means.items()
    }


def with_means(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the state in which means stand in the place of what they are means of."""
    return state | {n.removeprefix(MEAN): t for n, t in state.items() if n.startswith(MEAN)}
