"""FedHome, the device half (Wu et al. 2022): FedAvg, then a head of one's own on balanced data."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedhome import trains_heads
from fedsub_core.seeds import generator
from fedsub_core.training import Turn, train
from fedsub_core.wire.bundles import Bundle

#: 1 for clients whose head is their own, float32 [clients].
AT_HOME = "at_home"


class FedHomeLearner(FedAvgLearner):
    """FedAvg's, and in the last rounds its head alone trains, on embeddings it balances."""

    renewed = False

    def check(self) -> None:
        """Refuse a head that the model does not have."""
        self.model.head(self.hyper.head_layers)

    def init(self, clients: int, seed: int) -> State:
        """Return :meth:`Learner.init`'s state, nobody having a head of its own."""
        return super().init(clients, seed) | {AT_HOME: torch.zeros(clients)}

    def receive(self, state: State, received: Received) -> State:
        """Adopt the global model, unless the head is one's own by now."""
        own = state[AT_HOME].tolist()
        taken = [Bundle() if home else one for one, home in zip(received, own, strict=True)]
        return super().receive(state, taken)

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do FedAvg's round; or train the head at home and send nothing."""
        hyper, model = self.hyper, self.model
        if not trains_heads(hyper, turn):
            return super().fit(state, received, data, turn)
        state = self.receive(state, received)
        params = self.get(state, "model")
        made = embeddings(model, params, data.x, hyper.head_layers, data.scale)
        seen = replace(data, x=made, scale=None)
        if hyper.smote:
            seen = oversample(seen, turn.seed, hyper.neighbours, hyper.rare == "drop")
        _, head = model.cut(hyper.head_layers)
        # Augmentation is of samples, and these are embeddings.
        rate = replace(self.settings, lr=self.settings.lr * hyper.head_lr_factor, augment="")
        params, loss = train(head, params, seen, turn, rate, objective=self.loss)
        state = state | self.put(params, "model") | {AT_HOME: torch.ones_like(state[AT_HOME])}
        return state, [Bundle(count) for count in data.counts], reported(training_loss=loss)


def oversample(data: Stack, seed: int, neighbours: int = 5, drop_rare: bool = False) -> Stack:
    """Return each client's samples and, of every class it has, synthetic ones up to its largest.

    SMOTE (Chawla et al. 2002), written out rather than taken from imbalanced-learn: the device
    needs neither it nor scikit-learn otherwise, it refuses classes of no more samples than
    neighbours, and its one random state would draw differently for each company of clients.

    Parameters
    ----------
    seed : of the run; each client has a stream of its own, the same in every round.
    neighbours : k; of a class of n samples the nearest min(k, n - 1) are used.
    drop_rare : leave classes of up to k samples out, unless that would be all.
    """
    xs, ys = [], []
    for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
        x, y = data.x[i, :count], data.y[i, :count]
        of_class = y.bincount()
        if drop_rare and (of_class > neighbours).any():
            kept = of_class[y] > neighbours
            x, y = x[kept], y[kept]
            of_class = y.bincount()
        own, most = generator(seed, client, 0, "synthetic samples"), int(of_class.max())
        for label in of_class.nonzero().flatten().tolist():
            made = synthetic(x[y == label], most - int(of_class[label]), neighbours, own)
            x, y = torch.cat([x, made]), torch.cat([y, y.new_full((len(made),), label)])
        xs.append(x)
        ys.append(y)
    counts = tuple(len(y) for y in ys)
    return Stack(
        data.clients, pad_sequence(xs, True), pad_sequence(ys, True), counts, data.capacities
    )


def synthetic(x: Tensor, count: int, neighbours: int, own: Generator) -> Tensor:
    """Return `count` samples like those of one class, ``x [n, *d]``.

    Each is ``x + u * (x_near - x)``: x any sample, x_near one of its nearest, u uniform in [0, 1).
    A single sample is copied.
    """
    base = torch.randint(len(x), (count,), generator=own).to(x.device)
    k = min(neighbours, len(x) - 1)
    if not k or not count:
        return x[base]
    distances = torch.cdist(x.flatten(1), x.flatten(1)).fill_diagonal_(torch.inf)
    near = distances.topk(k, largest=False).indices
    other = near[base, torch.randint(k, (count,), generator=own).to(x.device)]
    share = torch.rand(count, generator=own).to(x.device).view(-1, *[1] * (x.ndim - 1))
    return x[base] + share * (x[other] - x[base])
