"""CA-AFP, the device half: the group's sparse model, trained; gradients when masks move."""

import torch

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.seeds import derive_seed
from fedsub_core.training import Pull, Turn
from fedsub_papers.client.parts.sparse import SparseLearner
from fedsub_papers.methods.caafp import LABELS, adjustments, divides_in


class CAAFPLearner(SparseLearner):
    """Trains the group's model under its mask; in the last round tunes what is tested."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train; send the model, and what this round needs beside it."""
        state, hyper = self.receive(state, received), self.hyper
        params, masks, beside = self.get(state, "model"), self.masks(state), Params()
        moving = turn.round in adjustments(hyper, turn.rounds)
        if moving and hyper.schedule == "iterative":
            beside = self.gradients(params, data, turn)
        if hyper.label_counts and turn.round == divides_in(hyper, turn.rounds):
            beside[LABELS] = self.label_counts(data)
        objective = self.loss
        if weight := hyper.drawn_pull:
            objective += Pull(self.drawn(data, turn), weight)
        params, loss = self.train_masked(params, masks, data, turn, objective=objective)
        uploads = self.sparse_uploads(params, masks, data, beside)
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def adapt(self, state: State, data: Stack, turn: Turn) -> State:
        """Train the group's model in the last round, under the mask."""
        if turn.round < turn.rounds:
            return state
        params, masks = self.get(state, "model"), self.masks(state)
        held = masks if self.hyper.finetune_masked else {}
        few = {"phase": "personalise", "epochs": self.hyper.finetune_epochs}
        params, _ = self.train_masked(params, held, data, turn, **few)
        return state | self.put(params, "model")

    def drawn(self, data: Stack, turn: Turn) -> Params:
        """Return each client's model that nobody trains, by its own start: stacked tensors."""
        seeds = [derive_seed(turn.seed, client, 0, "caafp-drawn") for client in data.clients]
        models = [self.model.init(1, seed) for seed in seeds]
        return {name: torch.cat([model[name] for model in models]) for name in models[0]}

    def label_counts(self, data: Stack) -> torch.Tensor:
        """Return each client's samples of every class, float32 [clients, classes]."""
        return data.of_class(self.model.classes).sum(1).float()
