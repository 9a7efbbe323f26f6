"""FedSub with a federated gate where the server learns sums alone, the server half."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_gated import (
    CURVES,
    GATE,
    GATE_ASKED,
    HOLDS_BACK,
    MOST,
    judges,
    names,
)
from fedsub_core.methods.fedsub_sums import EVERYBODY, MIX
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.cluster_slots import Array, Layout, gate_layout
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub.summed import KNOWN, SummedFedSubStrategy, mean_of, ones_and_sums
from strategies.methods.fedsub_gated.fusion import annealed
from strategies.methods.fedsub_gated.gate import Gate
from strategies.parts.sure_people import ever_counted
from strategies.rounds.context import Opened, Start
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")

#: By rows: of which units there is a mean of everybody.
ANYBODY = ".anybody" + KNOWN
#: How many people held samples back in the last sum, int64 [1]; how many were ever in a sum.
JUDGES, EVER = "gate.judges", "gate.people"
#: How far rounding may move a sum, for each person.
ROUNDED = 1e-3


class SummedFedSubGatedStrategy(SummedFedSubStrategy):
    """State: FedSub's of sums, the gate's, and everybody's means.

    ``<rows>.everybody`` float32 [units, width]; ``<rows>.anybody.known`` bool [units].
    """

    def init(self, start: Start) -> State:
        """Return clusters of which nothing is known, and a gate that knows nothing."""
        state = super().init(start) | Gate.even(len(names(self.hyper))).state()
        state |= {name: torch.zeros(1, dtype=torch.int64) for name in (JUDGES, EVER)}
        for layer in self.layout.layers:
            for own in layer.rows:
                state[own.name + EVERYBODY] = torch.zeros(layer.units, own.width)
                state[own.name + ANYBODY] = torch.zeros(layer.units, dtype=torch.bool)
        return state

    def told_beside(self, state: State, turn: Turn) -> dict[str, Part]:
        """Send everybody's means, how much of them is mixed in, and the common weights."""
        mix = annealed(turn.round, turn.rounds, self.hyper.anneal)
        told = self.told_alone(state)
        told[MIX] = Floats(np.array([mix.alike, mix.all], np.float32))
        for layer in self.layout.layers:
            for own in layer.rows:
                known, rows = state[own.name + ANYBODY], state[own.name + EVERYBODY]
                told[own.name + EVERYBODY] = Floats.rows(known.numpy(), rows[known].numpy())
        return told

    def told_alone(self, state: State) -> dict[str, Part]:
        """Send the common weights and temperatures."""
        return Gate.of(state).told(self.hyper.calibrate)

    def asked_beside(
        self, state: State, turn: Turn, least: int, gone: int
    ) -> tuple[dict[str, NDArray[np.bool_]], list[NDArray[np.int64]]]:
        """Ask for the gate's sums if enough people hold samples back for sure."""
        sure = state[JUDGES].numpy() - gone
        asked = (sure >= least) & judges(self.hyper, turn.round, turn.rounds)
        return {GATE_ASKED: asked}, [sure[asked]]

    def means_of(self, state: State, found: Mapping[str, Array]) -> State:
        """Return the means of clusters, and of all people in those of the class in turn."""
        part = super().means_of(state, found)
        for layer in self.layout.layers:
            for own in layer.rows:
                people, sums = ones_and_sums(found[own.name])
                known = part[own.name + KNOWN].numpy()
                people = np.where(known, people, 0).sum((0, 1))
                mean = mean_of(np.where(known[..., None], sums, 0).sum((0, 1)), people)
                part[own.name + EVERYBODY] = torch.from_numpy(mean)
                part[own.name + ANYBODY] = torch.from_numpy(people > 0)
        return part

    def found_beside(
        self, state: State, found: Mapping[str, Array], opened: Opened, turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Take a step of the gate."""
        gate, sums = Gate.of(state), found[GATE]
        curves = found[CURVES] if self.hyper.calibrate else None
        judged, slack = sums[-1], ROUNDED * len(opened.clients)
        ever = max(int(state[EVER]), ever_counted(state))
        if round(judged) == 0:
            pass
        elif (
            judged > len(opened.clients) + slack
            or (sums < -slack).any()
            or sums[:-1].sum() > judged + slack
            or (curves is not None and (abs(curves) > MOST * judged + slack).any())
        ):
            got = f"{sums.min():g} to {sums.max():g}, expected shares of {judged:g} people"
            log.warning("round %d: the gate's sums are of no use: %s", turn.round, got)
        else:
            gate = gate.moved(sums[:-1], curves, len(opened.clients) / max(ever, 1))
        gate, rows = gate.ended(self.hyper, turn)
        holding = torch.from_numpy(np.rint(found[HOLDS_BACK]).astype(np.int64))
        return gate.state() | {JUDGES: holding, EVER: torch.tensor([ever])}, rows

    @property
    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return gate_layout(self.model, self.hyper)
