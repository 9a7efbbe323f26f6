"""FedCLAR, the device half (Presotto et al. 2022): FedAvg's, tuned at home at last."""

from __future__ import annotations

from fedsub_client.learner import State
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.training import Turn


class FedCLARLearner(FedAvgLearner):
    """FedAvg's, whose model is trained on before it is used when the run is over."""

    def adapt(self, state: State, data: Stack, turn: Turn) -> State:
        """Train the group's model in the last round."""
        if turn.round < turn.rounds:
            return state
        params, epochs = self.get(state, "model"), self.hyper.finetune_epochs
        tuned, _ = self.train(params, data, turn, phase="personalise", epochs=epochs)
        return state | self.put(tuned, "model")
