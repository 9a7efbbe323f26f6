"""How much the units of a model's hidden layers say on a person's own samples."""

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.models.chain import Step, require_chain
from fedsub_core.models.layers import Affine
from fedsub_core.models.model import Model, Params
from fedsub_core.models.torch_model import TorchModel
from fedsub_papers.client.parts.module_activity import module_activity


def activity(
    model: Model, params: Params, data: Stack, block: int, often: bool = False
) -> dict[str, Tensor]:
    """Return the mean output after ReLU of each unit, float64 [clients, units], by hidden layer.

    The mean is over a client's real samples and all positions. `often`: the share of outputs above
    0 instead. Samples are seen in blocks of `block`, which hold the same whoever shares the stack.
    A module's hidden layers are its groups of units: what counts is what the layers behind them
    read of them, below 0 as 0, in the mean over these layers.
    """
    if isinstance(model, TorchModel):
        return module_activity(model, params, data, block, often)
    model = require_chain(model)
    sums: dict[str, Tensor] = {}
    real = data.valid.double()
    with torch.no_grad():
        for start in range(0, data.x.shape[1], block):
            part = slice(start, start + block)
            tape: list[Step] = []
            model.forward(params, inputs(data.x[:, part], data.scale), tape)
            for layer, step in zip(model.layers, tape, strict=True):
                if isinstance(layer, Affine) and layer is not model.affine[-1]:
                    said = step.out.clamp(min=0)
                    each = (said > 0).double() if often else said.double()
                    mean = each.flatten(3).mean(3) if each.dim() > 3 else each
                    found = (mean * real[:, part].unsqueeze(2)).sum(1)
                    sums[layer.name] = sums.get(layer.name, 0) + found
    counts = real.sum(1, keepdim=True)
    return {name: found / counts for name, found in sums.items()}
