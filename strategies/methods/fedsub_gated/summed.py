"""FedSub with a federated gate where the server learns sums alone, the server half."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_gated import CURVES, GATE, GATE_ASKED, MOST, TEMPERATURES
from fedsub_core.methods.fedsub_gated_experts import judges, names
from fedsub_core.methods.fedsub_sums import MIX
from fedsub_core.metrics import MetricRow
from fedsub_core.secure.cluster_slots import Array, Layout
from fedsub_core.secure.gate_slots import HOLDS_BACK, layout_with_gate
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub.everybodys_means import EverybodysMeans
from strategies.methods.fedsub_gated.fusion import annealed
from strategies.methods.fedsub_gated.gate import Gate
from strategies.parts.sure_people import ever_counted
from strategies.rounds.context import Opened, Start
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")

#: How many people held samples back in the last sum, int64 [1]; how many were ever in a sum.
JUDGES, EVER = "gate.judges", "gate.people"
#: How far rounding may move a sum, for each person.
ROUNDED = 1e-3


class SummedFedSubGatedStrategy(EverybodysMeans):
    """State: FedSub's of sums, the gate's, and everybody's means."""

    counts_beside = (JUDGES,)

    def init(self, start: Start) -> State:
        """Return clusters of which nothing is known, and a gate that knows nothing."""
        state = super().init(start) | Gate.even(len(names(self.hyper))).state()
        state |= {name: torch.zeros(1, dtype=torch.int64) for name in (JUDGES, EVER)}
        return state

    def told_beside(self, state: State, turn: Turn) -> dict[str, Part]:
        """Send everybody's means, how much of them is mixed in, and the common weights."""
        mix = annealed(turn.round, turn.rounds, self.hyper.anneal)
        told = self.told_alone(state) | super().told_beside(state, turn)
        return told | {MIX: Floats(np.array([mix.alike, mix.all], np.float32))}

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

    def found_beside(
        self, state: State, found: Mapping[str, Array], opened: Opened, turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Take a step of the gate."""
        gate, sums = Gate.of(state), found[GATE]
        curves = found[CURVES] if self.hyper.calibrate else None
        people, judged, holding = len(opened.clients), sums[-1], round(float(found[HOLDS_BACK][0]))
        slack = ROUNDED * people
        if curves is not None:
            curves[:, TEMPERATURES.index(1.0)] = 0  # as it is for each person
        ever = max(int(state[EVER]), ever_counted(state))
        impossible = (
            not 0 <= holding <= people
            or judged > people + slack
            or (sums < -slack).any()
            or sums[:-1].sum() > judged + slack
            or (curves is not None and (abs(curves) > MOST * judged + slack).any())
        )
        if impossible:
            got = f"shares of {sums.min():g} to {sums.max():g}, {holding} who hold samples back"
            said = f"got {got}, expected those of at most {people} people"
            log.warning("round %d: the gate's sums are of no use: %s", turn.round, said)
            holding = 0
        elif round(judged) > 0:
            # Of who holds samples back only those add who were counted in the round before.
            part = min(1.0, judged / max(holding, 1))
            gate = gate.moved(sums[:-1], curves, part * people / max(ever, 1))
        gate, rows = gate.ended(self.hyper, turn)
        return gate.state() | {JUDGES: torch.tensor([holding]), EVER: torch.tensor([ever])}, rows

    @property
    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return layout_with_gate(round.model, self.hyper)
