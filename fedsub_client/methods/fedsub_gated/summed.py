"""FedSub with a federated gate where the server learns sums alone, the device half."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, Report, State
from fedsub_client.methods.fedsub.fusion_by_means import Array, Bools, OfClusters
from fedsub_client.methods.fedsub.summed import ROUND, SummedSubnetworkLearner
from fedsub_client.methods.fedsub_gated.fusion_by_means import fuse
from fedsub_client.methods.fedsub_gated.learner import FedSubGatedLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub import SHARES
from fedsub_core.methods.fedsub_gated import CURVES, GATE, GATE_ASKED, WEIGHT
from fedsub_core.methods.fedsub_sums import EVERYBODY, FRESH, MIX
from fedsub_core.secure.cluster_slots import Layout
from fedsub_core.secure.gate_slots import HOLDS_BACK, layout_with_gate
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

#: In a state, by layer: each class's share in units' relevance when these were counted last,
#: float32 [clients, classes, units].
SHARES_OF = "counted.shares."
#: And whether samples were held back then, int64 [clients].
JUDGED_LAST = "counted.judged"


class SummedFedSubGatedLearner(SummedSubnetworkLearner, FedSubGatedLearner):
    """Adds up the gate's sums beside those of clusters, and fuses with everybody's mean, too."""

    def init(self, clients: int, seed: int) -> State:
        """Return experts of people of whom nothing was counted."""
        hidden = self._layout.layers if not self.shares_outputs else self._layout.layers[:-1]
        state = super().init(clients, seed)
        state[JUDGED_LAST] = torch.zeros(clients, dtype=torch.int64)
        return state | {
            SHARES_OF + layer.name: torch.zeros(clients, self.model.classes, layer.units)
            for layer in hidden
        }

    def replaced(
        self, state: State, i: int, layer: str, own: str, of: OfClusters, bundle: Bundle
    ) -> tuple[Array, Bools]:
        """Return rows as the fused track has them in this round."""
        part = bundle.part(own + EVERYBODY)
        anybody = part.at.held((len(of.own),))
        everybody = np.zeros_like(of.own)
        everybody[anybody] = part.values
        if not state["met"][i]:  # whoever joins late starts from everybody's last mean
            return everybody, anybody
        if not int(state[ROUND][i]):  # it was in no sum yet, and has trained nevertheless
            return of.own, np.zeros_like(anybody)
        anybody = anybody & bundle.bits(own + FRESH)
        shares = state.get(SHARES_OF + layer)
        mine = None if shares is None else shares[i].cpu().numpy()[of.classes]
        alike, all = (float(one) for one in bundle.floats(MIX))
        return fuse(of, mine, everybody, anybody, alike, all)

    def noted(self, state: State, i: int, upload: Bundle) -> None:
        """Keep shares, too."""
        super().noted(state, i, upload)
        for name, shares in state.items():
            if name.startswith(SHARES_OF):
                told = upload.floats(name.removeprefix(SHARES_OF) + SHARES)
                shares[i] = torch.from_numpy(told)
        state[JUDGED_LAST][i] = int(upload.floats(GATE)[-1] > 0)

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Report no weights: with everybody's they would tell what a person added for the gate."""
        state, uploads, reports = super().fit(state, received, data, turn)
        told: list[Report] = [
            {n: x for n, x in one.items() if not n.startswith(WEIGHT)} for one in reports
        ]
        return state, uploads, told

    def add_beside(
        self,
        parts: Mapping[str, Array],
        upload: Bundle,
        asks: Mapping[str, Bools],
        last: Mapping[str, Tensor] | None,
    ) -> bool:
        """Add means over the samples that judge: each person counts once, whatever its samples."""
        judged = float(upload.floats(GATE)[-1])
        parts[HOLDS_BACK][:] = judged > 0
        if last is None or not last[JUDGED_LAST] or not asks[GATE_ASKED].all():
            return True
        if not judged > 0:
            return False
        parts[GATE][:] = upload.floats(GATE) / judged
        if CURVES in parts:
            parts[CURVES][:] = upload.floats(CURVES) / judged
        return True

    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return layout_with_gate(self.model, self.hyper)
