"""FedFomo, the device half (Zhang et al. 2021): weigh others' models by one's own validation."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_client.downloads import adopted
from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_client.parts.validation import held_back
from fedsub_core.data.stacks import Stack, inputs, per_client
from fedsub_core.methods.fedfomo import GAINS, peer
from fedsub_core.models.model import Params
from fedsub_core.training.objectives import cross_entropy
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

#: Models that are no farther apart are the same.
SAME = 1e-12
#: What is sent of a gain is no further from 0: a peer's model of huge numbers loses more than the
#: wire takes, and who says so would be refused for it.
GREATEST = 1e4


def gain(loss: Tensor, distance: Tensor) -> Tensor:
    """Return by how much each candidate's loss is lower than the first's, over its distance.

    `loss`, `distance` [clients, candidates]; 0 at no distance and where a loss is no finite number.
    The weights of Zhang et al. 2021 before they are cut at 0 and normalised.
    """
    gains = (loss[:, :1] - loss) / distance.clamp(min=SAME)
    return torch.where((distance >= SAME) & gains.isfinite(), gains, 0.0)


def share(gains: Tensor) -> Tensor:
    """Return each candidate's share in the new model, [clients, candidates], of what it gains.

    Candidates that gain nothing have none; where none gains, it is the first's.
    """
    kept = gains.clamp(min=0)
    kept[:, 0] += (kept.sum(1) == 0).to(kept.dtype)
    return kept / kept.sum(1, keepdim=True)


class FedFomoLearner(Learner):
    """It keeps its model as it was before its last training, and after it."""

    models = ("before", "model")

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Mix the candidates, train on what is not held back; send the model and peers' gains."""
        train, judged = held_back(data, self.hyper.validation)
        before, gains, others = self.mixed(state, received, judged)
        params, loss = self.train(before, train, turn)
        state = state | self.put(before, "before") | self.put(params, "model")
        uploads = self.uploads(params | {GAINS: gains}, data)
        return state, uploads, reported(training_loss=loss, weight_of_others=others)

    def arrived(self, state: State, received: Received, data: Stack, turn: Turn) -> State:
        """Return the state with the mixed model in place of the trained one, where that is tested.

        It is for whoever has no trained one yet, too, and is sent peers' in its place.
        """
        mixes = [self.hyper.tested == "received" or bool(b.tensors) for b in received]
        if not any(mixes):
            return state
        _, judged = held_back(data, self.hyper.validation)
        mixed, own = self.mixed(state, received, judged)[0], self.get(state, "model")
        which = torch.tensor(mixes)
        tested = {n: torch.where(per_client(which, t), mixed[n], t) for n, t in own.items()}
        return state | self.put(tested, "model")

    def mixed(
        self, state: State, received: Received, judged: Stack
    ) -> tuple[Params, Tensor, Tensor]:
        """Return the mean of the candidates, peers' gains [clients, M] and peers' share [clients].

        One's model before the last training is the first candidate, the trained one the second.
        """
        before = self.get(state, "before")
        losses, distances = [], []
        for candidate in self._candidates(state, received):
            away = [(t - before[n]).flatten(1).double() for n, t in candidate.items()]
            distances.append(torch.stack([t.square().sum(1) for t in away]).sum(0).sqrt())
            losses.append(self._loss(candidate, judged))
        gains = gain(torch.stack(losses, 1), torch.stack(distances, 1))
        shares, mean = share(gains), {n: torch.zeros_like(t) for n, t in before.items()}
        candidates = self._candidates(state, received)
        for weight, candidate in zip(shares.float().unbind(1), candidates, strict=True):
            for name, tensor in candidate.items():
                factor = per_client(weight, tensor)
                # Not even a model of infinite numbers counts where its share is 0.
                mean[name] += torch.where(factor > 0, factor * tensor, 0.0)
        missing = self.hyper.peer_models + 2 - gains.shape[1]
        of_peers = F.pad(gains[:, 2:], (0, missing)).clamp(-GREATEST, GREATEST)
        return mean, of_peers.float(), shares[:, 2:].sum(1)

    def _candidates(self, state: State, received: Received) -> Iterator[Params]:
        """Yield one's own two models, then peers'; for clients that have fewer, one's own again."""
        before = self.get(state, "before")
        yield before
        yield self.get(state, "model")
        for k in range(self.hyper.peer_models):
            names = {peer(k, name): name for name in before}
            parts = [
                {names[n]: part for n, part in bundle.tensors.items() if n in names}
                for bundle in received
            ]
            if not any(parts):
                return
            yield adopted(before, [Bundle(tensors=tensors) for tensors in parts])

    def _loss(self, params: Params, judged: Stack) -> Tensor:
        with torch.no_grad():
            seen = inputs(judged.x, judged.scale)
            each = cross_entropy(self.model.forward(params, seen), judged.y).double()
        return (each * judged.valid).sum(1) / judged.valid.sum(1)
