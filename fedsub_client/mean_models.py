"""Means of a person's models over its rounds, which predict in their place: they swing less.

Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim.
30, 1992; with weights that fall exponentially. Any method may have them (``smooth``). What trains
and what is sent is as without them.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from fedsub_core.data.stacks import Stack, per_client
from fedsub_core.models.model import Model
from fedsub_core.pytorch import HERE, Tensor, copied, library, torch, zeros
from fedsub_core.turn import Turn

State = dict[str, Tensor]
#: Before a name in the state: its mean.
MEAN = "mean."
#: Which classes a client had when its means were last made, float32 [clients, classes].
KNOWN = "known classes"
#: After so many rounds about half of them count.
SOON = 10


def smoothed(state: State, names: Collection[str], most: float, round: int) -> State:
    """Return new means of the tensors `names`; a round counts ``1 - most`` at least.

    In a run's first rounds, when models still move far, it is more: all of it in the first.
    """
    kept = min(most, (round - 1) / (round - 1 + SOON))
    return {MEAN + name: _between(state[name], state[MEAN + name], kept) for name in names}


def _between(new: Tensor, mean: Tensor, kept: float) -> Tensor:
    return torch.lerp(new, mean, kept) if HERE else new + kept * (mean - new)


def begun_anew(state: State, means: State, which: Tensor) -> State:
    """Return the means; of the clients [clients] that `which` says, the `state`'s own tensors."""
    if not which.any():
        return means
    new = {name: state[name.removeprefix(MEAN)] for name in means}
    return {
        name: library(mean).where(per_client(which, mean), new[name], mean)
        for name, mean in means.items()
    }


def with_means(state: State) -> State:
    """Return the state in which means stand in the place of what they are means of."""
    return state | {n.removeprefix(MEAN): t for n, t in state.items() if n.startswith(MEAN)}


class MeanModels:
    """The part of a learner that keeps means of its models, where ``smooth`` asks for them."""

    model: Model
    hyper: Any
    models: tuple[str, ...]
    #: Of these, the models that predictions go by, of which means may be kept; (): the last alone.
    predict_by: tuple[str, ...] = ()
    #: Where the state says which classes a client had when its means were last made.
    classes_known: str = KNOWN

    @cached_property
    def averaged(self) -> tuple[str, ...]:
        """Names in the state of the tensors of which means over rounds predict; mostly ()."""
        if not self.hyper.smooth:
            return ()
        models = self.predict_by or self.models[-1:]
        return tuple(f"{model}.{key}" for model in models for key in self.model.tensor_shapes)

    def first_means(self, state: State, clients: int) -> State:
        """Return the means before the first round, of a `state` of so many clients."""
        if not self.averaged:
            return {}
        means = {MEAN + name: copied(state[name]) for name in self.averaged if name in state}
        return means | {self.classes_known: zeros((clients, self.model.classes))}

    def means(self, state: State, data: Stack, turn: Turn) -> State:
        """Return the means after a round in which a `state`'s models are tested.

        Those of who got a class, or has none yet, begin anew: the past knows nothing of it.
        """
        held = data.holds(self.model.classes)
        came = (held & (state[self.classes_known] == 0)).any(1)
        means = smoothed(state, self.averaged, self.hyper.smooth, turn.round)
        return begun_anew(state, means, came) | {
            self.classes_known: held * library(held).ones_like(state[self.classes_known])
        }

    def with_tested_means(self, state: State, data: Stack, turn: Turn) -> State:
        """Return the state with the means that are tested.

        Who trained is tested with its means as they are, others with what they begin with.
        """
        if self.hyper.tested == "received":
            return state | self.means(state, data, turn)
        kept = {MEAN + name: state[MEAN + name] for name in self.averaged}
        return state | begun_anew(state, kept, ~(state[self.classes_known] != 0).any(1))
