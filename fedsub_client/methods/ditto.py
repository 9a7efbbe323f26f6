"""Ditto, the device half (Li et al. 2021, algorithm 1)."""

from __future__ import annotations

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.training import Pull, Turn


class DittoLearner(Learner):
    """FedAvg's half, and beside it a model pulled to the global one as it was received."""

    models = ("global", "personal")

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train the global model and send it; train one's own on the same batches."""
        state = self.receive(state, received)
        anchor, own = (self.get(state, name) for name in self.models)
        shared, _ = self.train(anchor, data, turn)
        objective, epochs = self.loss + Pull(anchor, self.hyper.lam), self.hyper.personal_epochs
        own, loss = self.train(own, data, turn, objective=objective, epochs=epochs or None)
        state = state | self.put(shared, "global") | self.put(own, "personal")
        return state, self.uploads(shared, data), reported(training_loss=loss)
