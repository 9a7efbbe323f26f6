"""FedSub with a federated gate where the server learns sums alone, the device half."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsub_client.learner import Fitted, Received, Report, State
from fedsub_client.methods.fedsub.summed import SummedFedSubLearner
from fedsub_client.methods.fedsub_gated.learner import FedSubGatedLearner
from fedsub_client.parts.counted_rows import LAST, ROUND
from fedsub_core.addend_numbers import Array, Bools
from fedsub_core.data.stacks import Stack
from fedsub_core.methods import fedsub_gated as card
from fedsub_core.methods.fedsub_sums import MIX, USED
from fedsub_core.models.architecture import LayerWithUnits
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle


class SummedFedSubGatedLearner(SummedFedSubLearner, FedSubGatedLearner):
    """Adds up the gate's sums beside those of units, and mixes as the fused track does."""

    def counted(self, upload: Bundle) -> dict[str, Bools]:
        """Return the entries that a person has: of units, and whether it holds samples back."""
        return super().counted(upload) | {card.HOLDS_BACK: upload.floats(card.GATE)[None, -1:] > 0}

    def share(self, state: State, i: int, layer: LayerWithUnits, bundle: Bundle) -> Array:
        """Return 1 for output rows, units that were not selected, and who joins late; else MIX."""
        every = np.ones(layer.units)
        if not state["met"][i]:
            return every
        if not state[ROUND][i]:  # it was in no sum yet, and has trained nevertheless
            return 0 * every
        if layer is self.model.affine[-1]:
            return every
        used = state[LAST + layer.name + USED][i].any(0).cpu().numpy()
        return np.where(used, bundle.floats(MIX), every)

    def add(
        self, state: State, i: int, upload: Bundle, asked: Mapping[str, Bools]
    ) -> dict[str, Array] | None:
        """Add means over the samples that judge: each person counts once, whatever its samples."""
        values, judged = super().add(state, i, upload, asked), float(upload.floats(card.GATE)[-1])
        if not asked[card.GATE_ASKED].all() or not state[LAST + card.HOLDS_BACK][i].any():
            return values
        if values is None or not judged > 0:
            return None
        return values | {n: upload.floats(n) / judged for n in card.gate_shapes(self.hyper)}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Report no weights: with everybody's they would tell what a person added for the gate."""
        state, uploads, reports = super().fit(state, received, data, turn)
        kept: list[Report] = [
            {n: x for n, x in one.items() if not n.startswith(card.WEIGHT)} for one in reports
        ]
        return state, uploads, kept
