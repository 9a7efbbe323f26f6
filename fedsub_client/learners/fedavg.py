"""FedAvg, the device half (McMahan et al. 2017): adopt the global model, train, send it.

What is global, and so adopted and sent, is what the card declares: the whole model, or its body.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsub_client.learners.base import Learner, Report, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle


class FedAvgLearner(Learner):
    """Its model is the last global model it received, trained."""

    def fit(
        self, state: State, received: Sequence[Bundle], data: Stack, turn: Turn
    ) -> tuple[State, list[Bundle], list[Report]]:
        """Adopt the global model, train for the round's epochs, upload."""
        state = self.receive(state, received)
        params, loss = self.train(self.get(state, "model"), data, turn)
        return (
            state | self.put(params, "model"),
            self.uploads(params, data),
            reported(training_loss=loss),
        )
