"""FedMef, the server half (Huang et al. 2024): the mean under one mask, which is moved."""

from collections.abc import Mapping, Sequence

import torch

from fedsub_core.method_parts.layers import is_weight
from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import generator
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.masks import highest, lowest, random, share_of
from fedsub_papers.methods.fedmef import adjusts
from fedsub_papers.methods.sparse import GRADIENT
from fedsub_papers.strategies.parts.sparse import other_masks, packed, sparsity_rows
from strategies.parts.averaging import robust_mean, weighted_mean, weights
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State

_MASK = "mask."


class FedMefServer(ServerHalf):
    """State: the model's tensors by name, zero where masked out, and ``mask.<weight>`` bool."""

    def init(self, start: Start) -> State:
        """Return the clients' common start under a random mask."""
        seed = self.settings.rounds.seed
        stream = generator(seed, "", 0, "mask")
        drawn = start.model.init(1, seed)
        dense = {name: drawn[name][0] for name in start.model.parameter_shapes}
        masks = {
            name: random(tuple(tensor.shape), share_of(tensor.numel(), self.hyper.sparsity), stream)
            for name, tensor in dense.items()
            if is_weight(tensor.shape)
        }
        return self._masked(dense, masks)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the sparse model."""
        return [packed(*self._parts(state))] * len(clients)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the mask that was sent, and gradients in the rounds that need them, only there."""
        _, masks = self._parts(state)
        if other := other_masks(upload, masks):
            raise sender.refuse(f"masks of {other}", "other weights", "those it was sent")
        wanted = {GRADIENT + name for name in masks if self._adjusts(sender.turn.round)}
        sent = {name for name in upload.tensors if name.startswith(GRADIENT)}
        if sent != wanted:
            raise sender.refuse("gradients", sorted(sent), sorted(wanted))

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average under the mask; move it if it is time."""
        model, masks = self._parts(state)
        mean = robust_mean(uploads, model, self.settings.robust)
        if uploads and self._adjusts(round.number):
            none = {GRADIENT + name: torch.zeros(mask.shape) for name, mask in masks.items()}
            counted = weights(uploads, self.settings.robust.most_examples)
            masks = self._moved(mean, masks, weighted_mean(uploads, none, counted))
        state = self._masked(mean, masks)
        return state, sparsity_rows(round.number, mean, masks)

    def _moved(self, model: State, masks: State, gradients: State) -> State:
        """Return the masks without the smallest weights, with the largest gradients instead."""
        moved = {}
        for name, mask in masks.items():
            count = share_of(int(mask.sum()), self.hyper.rate)
            count = min(count, int((~mask).sum())) if self.hyper.grow else count
            kept = mask & ~lowest(model[name].abs(), mask, count)
            size = gradients[GRADIENT + name].abs()
            moved[name] = kept | highest(size, ~mask, count) if self.hyper.grow else kept
        return moved

    def _adjusts(self, round: int) -> bool:
        return adjusts(self.hyper, round, self.settings.rounds.rounds)

    @staticmethod
    def _masked(model: State, masks: State) -> State:
        """Return the state; what is masked out, or only now active, is 0."""
        held = {n: t.where(masks[n], 0.0) if n in masks else t for n, t in model.items()}
        return held | {_MASK + name: mask for name, mask in masks.items()}

    @staticmethod
    def _parts(state: State) -> tuple[State, State]:
        """Return the model and the masks."""
        masks = {n.removeprefix(_MASK): t for n, t in state.items() if n.startswith(_MASK)}
        return {n: t for n, t in state.items() if not n.startswith(_MASK)}, masks
