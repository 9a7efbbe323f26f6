"""FedSub with a federated gate where the server learns sums alone, the server half."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsub_core.addend_numbers import Array
from fedsub_core.methods import fedsub_gated as card
from fedsub_core.methods.fedsub_gated_experts import judges, names
from fedsub_core.methods.fedsub_sums import MIX
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub.summed import SummedFedSubServer
from strategies.methods.fedsub_gated.fusion import annealed
from strategies.methods.fedsub_gated.gate import Gate
from strategies.parts.counted_rows import ever_counted
from strategies.rounds.context import Opened, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")

#: How many people were ever in a sum.
EVER = "gate.people"
#: How far rounding may move a sum, for each person.
ROUNDED = 1e-3


class SummedFedSubGatedServer(SummedFedSubServer):
    """State: FedSub's of sums, the gate's, and how many people held samples back."""

    def init(self, start: Start) -> State:
        """Return a state in which nothing is known, and a gate that knows nothing."""
        gate = Gate.even(len(names(self.hyper))).state()
        return super().init(start) | gate | {EVER: torch.zeros(1, dtype=torch.int64)}

    def shared_parts(self, state: State, round: Round) -> dict[str, Part]:
        """Send the common weights and temperatures, and how much of everybody is mixed in.

        In sums the only cluster of a class is everybody.
        """
        mix = annealed(round.number, round.turn.rounds)
        everybody = Floats(np.array([mix.alike + mix.all], np.float32))
        return Gate.of(state).download() | {MIX: everybody}

    def askable(self, state: State, round: Round) -> dict[str, Tensor]:
        """Return the counts of units, and of who holds samples back while these judge."""
        judged = judges(self.hyper, round.number, round.turn.rounds)
        return super().askable(state, round) | {card.GATE_ASKED: state[card.HOLDS_BACK] * judged}

    def taken(
        self, state: State, round: Round, opened: Opened, totals: Mapping[str, Array]
    ) -> tuple[State, list[MetricRow]]:
        """Take the means of units, and a step of the gate."""
        after, _ = super().taken(state, round, opened, totals)
        gate, rows = self.step(after, round, opened, totals)
        return after | gate, rows

    def step(
        self, state: State, round: Round, opened: Opened, totals: Mapping[str, Array]
    ) -> tuple[State, list[MetricRow]]:
        """Return the part of a state that is the gate's, a step later."""
        gate, sums = Gate.of(state), totals[card.GATE][0]
        curves = totals[card.CURVES][0]
        people, judged, holding = len(opened.clients), sums[-1], int(state[card.HOLDS_BACK])
        slack = ROUNDED * people
        curves[:, card.TEMPERATURES.index(1.0)] = 0  # as it is for each person
        ever = max(int(state[EVER]), ever_counted(state))
        impossible = (
            judged > people + slack
            or (sums < -slack).any()
            or sums[:-1].sum() > judged + slack
            or (abs(curves) > card.MOST * judged + slack).any()
        )
        if impossible:
            got = f"shares of {sums.min():g} to {sums.max():g}, {holding} who hold samples back"
            what = f"got {got}, expected those of at most {people} people"
            log.warning("round %d: the gate's sums are of no use: %s", round.number, what)
            holding = 0
        elif judged > 0.5:
            # Of who holds samples back only those add who were counted in the round before.
            part = min(1.0, judged / max(holding, 1))
            gate = gate.moved(sums[:-1], curves, part * people / max(ever, 1))
        gate, rows = gate.ended(names(self.hyper), round.turn)
        counts = {card.HOLDS_BACK: torch.tensor([holding]), EVER: torch.tensor([ever])}
        return gate.state() | counts, rows
