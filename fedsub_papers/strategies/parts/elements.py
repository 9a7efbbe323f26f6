"""Single numbers of a model that weak devices hold: which, and whether they are a model at all."""

import logging
from collections.abc import Mapping

import torch
from torch import Tensor

from fedsub_core.errors import cut
from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Chain
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.masks import highest, share_of
from fedsub_papers.methods.elements import layer_of, scales
from fedsub_papers.strategies.parts.sparse import Masks, packed
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.coverage import covered, multiplied_share
from strategies.rounds.context import Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")


class ElementServer(FedAvgServer):
    """FedAvg's, of whose model a device of capacity c holds the c * c of highest score."""

    gains_classes = False

    def part(self, round: Round, model: Mapping[str, Tensor], capacity: float) -> Bundle:
        """Return the part of a model that a device of a capacity is sent."""
        trained = {name: model[name] for name in round.model.trained if name in model}
        masks = best_elements(trained, capacity, self.hyper.score, self.hyper.scope)
        if capacity < 1 and isinstance(round.model, Chain):
            lost = torch.nonzero(paths(round.model, masks) == 0).flatten().tolist()
            if lost:
                round.log.warning(
                    "%s: of a device of capacity %g no path is left from samples to %d of %d "
                    "classes (%s): it cannot tell them apart. Give it a greater capacity, or the "
                    "run a model of more numbers",
                    self.card.name,
                    capacity,
                    len(lost),
                    round.model.classes,
                    cut(", ".join(round.classes[i] for i in lost)),
                )
        return packed(model, masks)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the numbers that were sent."""
        sent = round.sent[sender.client]
        other = [n for n in round.sends if n in sent.tensors and n in round.model.trained]
        other = [n for n in other if upload.part(n).at != sent.part(n).at]
        if other:
            raise sender.refuse(f"numbers of {other}", "others", "those it was sent")

    def counted(self, round: Round, uploads: Mapping[str, Bundle]) -> list[MetricRow]:
        """Return each client's multiplications, of those of the whole model, counted and real.

        Counted are those with numbers that it holds; ordinary hardware really makes all.
        """
        rows, trained = [], round.model.trained
        shapes = {n: s for n, s in round.model.parameter_shapes.items() if n in trained}
        for client, upload in uploads.items():
            numbers = {name: upload.part(name).values.size for name in shapes}
            held = multiplied_share(round.model, numbers)
            for what, share in (("counted", held), ("real", 1.0)):
                rows.append(MetricRow(round.number, client, None, f"multiplications_{what}", share))
        return rows + (covered(shapes, uploads, round.number) if round.narrow else [])


def best_elements(
    model: Mapping[str, Tensor], capacity: float, score: str = "scaled", scope: str = "global"
) -> dict[str, Tensor]:
    """Return the mask of the numbers that a device of a capacity holds, bool, by tensor.

    ``floor(capacity**2 * d)`` of d, one at least: those of highest score, of equal ones the first.
    With the scope ``layer`` of each layer, weights and biases together.
    """
    by = scales({name: tuple(tensor.shape) for name, tensor in model.items()}, score)
    groups: dict[str, list[str]] = {}
    for name in model:
        groups.setdefault(layer_of(name) if scope == "layer" else "", []).append(name)
    masks: dict[str, Tensor] = {}
    for names in groups.values():
        scores = torch.cat([(model[name].abs() * by[name]).flatten() for name in names])
        every = torch.ones_like(scores, dtype=torch.bool)
        best = highest(scores, every, max(1, share_of(len(scores), capacity**2)))
        each = torch.split(best, [model[name].numel() for name in names])
        masks |= {n: mask.view(model[n].shape) for n, mask in zip(names, each, strict=True)}
    return {name: masks[name] for name in model}


def paths(model: Model, masks: Masks) -> Tensor:
    """Return how many paths lead from a chain's inputs to each class, float64 [classes].

    A path takes one number of every layer; a convolution's has one for each place of its kernel.
    """
    found = torch.ones(model.input_shape[0], dtype=torch.float64)
    for layer in model.layer_names:
        mask = masks[f"{layer}.weight"]
        weights = mask.reshape(*mask.shape[:2], -1).sum(2).double()
        # Behind Flatten a channel owns several inputs.
        found = weights @ found.repeat_interleave(weights.shape[1] // len(found))
    return found
