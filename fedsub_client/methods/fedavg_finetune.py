"""FedAvg with fine-tuning, the device half (Wang et al. 2019): adapted where it is used."""

from __future__ import annotations

from fedsub_client.learner import State
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.training import Turn


class FineTuneLearner(FedAvgLearner):
    """FedAvg's, whose model is trained on before it is used; nothing of that is kept."""

    def check(self) -> None:
        """Refuse a head that the model does not have."""
        if self.hyper.finetune != "all":
            self.model.head(self.hyper.head_layers)

    def adapt(self, state: State, data: Stack, turn: Turn) -> State:
        """Train the model's head, all of it, or both in turn."""
        params = self.get(state, "model")
        epochs, layers = self.hyper.finetune_epochs, self.hyper.finetune
        if layers.startswith("head"):
            head, phase = self.model.head(self.hyper.head_layers), "personalise: head"
            params, _ = self.train(params, data, turn, only=head, phase=phase, epochs=epochs)
        if layers.endswith("all"):
            params, _ = self.train(params, data, turn, phase="personalise", epochs=epochs)
        return state | self.put(params, "model")
