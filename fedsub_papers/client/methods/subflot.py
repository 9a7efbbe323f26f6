"""SubFLOT, the device half: what is received is trained and holds it back (eq. 7)."""

from typing import Any

from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Pull, Trained, Turn


class SubFLOTLearner(FedAvgLearner):
    """FedAvg's, with a pull to what was received that grows with what the device lacks."""

    def train(self, params: Params, data: Stack, turn: Turn, **options: Any) -> Trained:
        """Minimise the loss and ``mu * p * ||w - received||**2``, p the share of units lacking."""
        lacking = 1 - data.capacities[0] if data.capacities and self.hyper.sar else 0.0
        # A pull of weight v adds v / 2 times the square.
        objective = self.loss + Pull(params, 2 * self.hyper.mu * lacking)
        return super().train(params, data, turn, objective=objective, **options)
