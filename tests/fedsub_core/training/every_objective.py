"""An objective of every term that the kernels know."""

import torch

from fedsub_core.models.model import Params
from fedsub_core.training import CE, Masked, Objective, PrototypePull, Pull, Term


def shaped_like(params: Params, seed: int) -> Params:
    """Return random tensors of the shapes of `params`."""
    stream = torch.Generator().manual_seed(seed)
    return {name: torch.randn(p.shape, generator=stream) for name, p in params.items()}


def objectives(params: Params) -> dict[str, Term | Objective]:
    """Return objectives of every term; of no parameters their names alone."""
    anchor = shaped_like(params, 1)
    some = {name: tensor for name, tensor in anchor.items() if name.endswith("weight")}
    # As many numbers for each class as the last layer has inputs.
    prototypes = [*some.values(), torch.zeros(1, 1, 1)][-2 if some else -1].flatten(2)
    held = torch.ones(prototypes.shape[:2]).bool().index_fill(1, torch.tensor(0), False)
    mask = {name: (tensor > 0).float() for name, tensor in shaped_like(params, 2).items()}
    return {
        "cross-entropy": CE,
        "pull": CE + Pull(anchor, 0.3),
        "pull of weights, in places": CE + Pull(some, 0.7, where=mask),
        "two pulls": CE + Pull(anchor, 0.3) + Pull(some, 0.1),
        "prototypes": CE + PrototypePull(prototypes, held, 0.9) + Pull(some, 0.1),
        "masked": CE + Pull(anchor, 0.3) + Masked(mask),
        "all": CE + Pull(some, 0.1) + PrototypePull(prototypes, held, 0.9) + Masked(mask),
    }
