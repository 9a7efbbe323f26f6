"""FedRep, the server half (Collins et al. 2021): FedAvg of the bodies."""

from __future__ import annotations

from fedsub_core.turn import Turn
from strategies.methods.fedavg import FedAvgServer


class FedRepServer(FedAvgServer):
    """FedAvg's, which may ask everybody in the last round, to train heads alone."""

    def wants_all(self, turn: Turn) -> bool:
        """Whether this is the last round and it fine-tunes."""
        return bool(self.hyper.finetune) and turn.round == turn.rounds
