"""The common gate: one step of expectation maximisation a round, from sums over people.

And a temperature for each expert, under which the samples that judge are likeliest. What a device
sends for both are sums over these samples, and how many they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.methods.fedsub_gated import CURVES, GATE, TEMPERATURES
from fedsub_core.methods.fedsub_gated_experts import LOCAL
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

State = dict[str, Tensor]
Array = NDArray[np.floating]
GATES = WEIGHTS, LOW, TEMPERATURE = "gate.weights", "gate.low", "gate.temperature"
#: An expert is dropped whose common weight stays below the least share for so many rounds; the
#: first part of a run, in which nobody has learnt much, does not count.
LEAST_SHARE, PATIENCE, WARM_UP = 0.01, 5, 0.35
#: The least weight of an expert that was not dropped: one of 0 could never come back.
LEAST = 1e-6
#: How far a round moves a temperature, of its logarithm: few samples judge in a round.
STEP = 0.3


@dataclass(frozen=True)
class Gate:
    """The common weights of the experts, and their temperatures.

    Parameters
    ----------
    weights : float32 [experts], which sum to 1; 0: dropped for ever.
    low : int64 [experts], for how many rounds the weight was below :data:`LEAST_SHARE`.
    temperature : float32 [experts], > 0.
    """

    weights: Tensor
    low: Tensor
    temperature: Tensor

    @classmethod
    def even(cls, experts: int) -> Gate:
        """Return a gate that knows nothing."""
        even, low = torch.full((experts,), 1 / experts), torch.zeros(experts, dtype=torch.int64)
        return cls(even, low, torch.ones(experts))

    @classmethod
    def of(cls, state: State) -> Gate:
        """Read a gate out of a strategy's state."""
        return cls(state[WEIGHTS], state[LOW], state[TEMPERATURE])

    def state(self) -> State:
        """Return the gate as plain named tensors."""
        return {WEIGHTS: self.weights, LOW: self.low, TEMPERATURE: self.temperature}

    def download(self) -> dict[str, Part]:
        """Return the weights and temperatures as a download has them."""
        parts = {GATE: self.weights, TEMPERATURE: self.temperature}
        return {name: Floats(tensor.numpy()) for name, tensor in parts.items()}

    def updated(self, uploads: Mapping[str, Bundle], most: float, share: float = 1.0) -> Gate:
        """Return the gate after a round's sums; where there are none, it is this one.

        Nobody counts for more than `most` times the median number of samples (0: no bound). `share`
        of the people were asked: where few are, the step is as small (stepwise EM, Cappe and
        Moulines 2009), so that the last ones drawn do not decide for all.
        """
        sums = _stacked(uploads, GATE)
        counts, factor = sums[:, -1], np.ones(len(sums))
        if not counts.any():
            return self
        if most:
            bound = most * np.median(counts[counts > 0])
            factor = np.minimum(1, bound / np.maximum(counts, 1e-12))
        curves = np.tensordot(factor, _stacked(uploads, CURVES), 1)
        return self.moved((factor[:, None] * sums[:, :-1]).sum(0), curves, share)

    def moved(self, explained: Array, curves: Array, share: float) -> Gate:
        """Return the gate after a step, by sums over people.

        Parameters
        ----------
        explained : of how much each expert explains, float64 [experts].
        curves : of how much likelier labels are, float64 [experts, temperatures].
        share : of the people who are in the sums.
        """
        gate = self._calibrated(curves)
        new = torch.from_numpy(explained)
        total = new.sum()
        if not total > 0:
            return gate
        new = (1 - share) * self.weights + share * new / total
        new = torch.where(self.weights > 0, new.clamp(min=LEAST), 0.0)
        return replace(gate, weights=(new / new.sum()).float())

    def _calibrated(self, curves: Array) -> Gate:
        """Return the gate a step nearer to the best temperatures of [experts, temperatures]."""
        best = torch.tensor(TEMPERATURES)[torch.from_numpy(curves.argmax(1))]
        return replace(self, temperature=self.temperature ** (1 - STEP) * best**STEP)

    def ended(self, experts: Sequence[str], turn: Turn) -> tuple[Gate, list[MetricRow]]:
        """Return the gate at a round's end, without experts that are hardly believed, and rows."""
        # What the others are held against is kept, whatever it is believed.
        keep = torch.tensor([name == LOCAL for name in experts])
        gate = self.pruned(turn.round, turn.rounds, keep)
        columns = {"gate": gate.weights, "temperature": gate.temperature}
        return gate, [
            MetricRow(turn.round, "", None, f"{metric}_{name}", number)
            for metric, numbers in columns.items()
            for name, number in zip(experts, numbers.tolist(), strict=True)
        ]

    def pruned(self, round: int, rounds: int, keep: Tensor) -> Gate:
        """Return the gate without experts that are below :data:`LEAST_SHARE` for some rounds.

        `keep` bool [experts]: which are not dropped.
        """
        if round <= WARM_UP * rounds:
            return self
        low = torch.where((self.weights < LEAST_SHARE) & ~keep, self.low + 1, 0)
        kept = self.weights * (low < PATIENCE)
        return replace(self, weights=kept / kept.sum(), low=low)


def _stacked(uploads: Mapping[str, Bundle], name: str) -> NDArray[np.float64]:
    return np.stack([upload.floats(name) for upload in uploads.values()]).astype(np.float64)
