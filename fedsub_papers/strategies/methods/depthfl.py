"""DepthFL, the server half (Kim et al. 2023): means of layers, corrected as in FedDyn."""

from collections.abc import Mapping

import torch

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.strategies.parts.all_rounds import MOVED, bounded
from fedsub_papers.strategies.parts.exits import ExitServer
from strategies.parts.averaging import robust_mean
from strategies.parts.sub_models import over_budget
from strategies.rounds.context import Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

_DRIFT = "drift/"


class DepthFLServer(ExitServer):
    """State: the global tensors; with ``feddyn`` ``drift/<tensor>``, FedDyn's h.

    Then also, where updates are bounded, ``moved/<client>`` (`all_rounds.py`).
    """

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round, and no drift."""
        state = super().init(start)
        if not self.hyper.feddyn:
            return state
        return state | {f"{_DRIFT}{name}": torch.zeros_like(t) for name, t in state.items()}

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each tensor over those who hold it, and go on against the drift.

        ``h -= alpha * n / N * (mean - old)`` and ``new = mean - h / alpha``, n of N clients; Acar
        et al., FedDyn, ICLR 2021, algorithm 1. What nobody holds stays as it was. With
        ``robust=clip`` no client's updates of all rounds together decide h: see
        :func:`~fedsub_papers.strategies.parts.all_rounds.bounded`.
        """
        old, robust = self.globals_of(state, round), self.settings.robust
        placed, moved = self.weighed(old, round, uploads), State()
        rows = self.counted(round, uploads, placed)
        if self.hyper.feddyn and robust.clip and placed:
            placed, moved = bounded(placed, old, state, robust)
        means = robust_mean(placed, old, robust, rule=self.rule)
        after, alpha = state | moved | means, self.hyper.alpha
        for name, mean in means.items() if self.hyper.feddyn else ():
            if held := sum(name in upload.tensors for upload in uploads.values()):
                share = held / len(round.clients)
                drift = state[f"{_DRIFT}{name}"] - alpha * share * (mean - old[name])
                after |= {f"{_DRIFT}{name}": drift, name: mean - drift / alpha}
        return after, rows + over_budget(round, uploads)

    def without(self, state: State, client: str) -> State:
        """Return the state without what a client has moved; what the drift has of it stays."""
        return {name: tensor for name, tensor in state.items() if name != f"{MOVED}{client}"}
