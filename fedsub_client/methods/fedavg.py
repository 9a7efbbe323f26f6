"""FedAvg, the device half (McMahan et al. 2017): adopt the global model, train, send it.

What is global, and so adopted and sent, is what the card declares: the whole model, or its body.
"""

from __future__ import annotations

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.turn import Turn


class FedAvgLearner(Learner):
    """Its model is the last global model it received, trained."""

    renewed = True

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt the global model, train for the round's epochs, upload."""
        state = self.receive(state, received)
        params, loss = self.train(self.get(state, "model"), data, turn)
        state = state | self.put(params, "model")
        return state, self.uploads(params, data), reported(training_loss=loss)
