"""One pass for relevance: forward, backward by LRP or not at all, and sums over each class."""

from __future__ import annotations

from torch import Tensor

from fedsub_client.methods.fedsub.lrp import AlphaBeta, affine_indices, propagate
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.layers import ReLU
from fedsub_core.models.model import Params

RULES = {"lrp-a1b0": AlphaBeta(1, 0), "lrp-a2b1": AlphaBeta(2, 1)}


def class_sums(
    model: Chain, parts: Params, x: Tensor, of_class: Tensor, rule: str, start: str
) -> tuple[list[Tensor], Tensor]:
    """Return every layer's relevance summed over each class's samples, and the logits.

    Parameters
    ----------
    parts : from :func:`fedsub_client.methods.fedsub.lrp.signed_parts`; for ``naive`` plain
        parameters do.
    x : [clients, samples, *features]
    of_class : [clients, samples, classes], 1 where the sample is of the class, 0 for padding.

    Returns
    -------
    sums : one [clients, classes, units] per layer with units
    logits : [clients, samples, classes]
    """
    tape: list[Step] = []
    logits = model.forward(parts, x, tape)
    if rule == "naive":
        units = [_mean_activation(model, tape, i) for i in affine_indices(model)]
    else:
        first = logits.relu() * of_class if start == "target" else logits.relu()
        at = propagate(model, parts, tape, first, RULES[rule])
        units = [_over_positions(at[i + 1]) for i in affine_indices(model)]
    by_class = of_class.transpose(1, 2)
    return [by_class.bmm(u) for u in units], logits


def _mean_activation(model: Chain, tape: list[Step], i: int) -> Tensor:
    """Activation of a layer's units after the ReLU that follows, mean over positions."""
    rectified = i + 1 < len(tape) and isinstance(model.layers[i + 1], ReLU)
    out = tape[i + rectified].out
    return out.flatten(3).mean(3) if out.dim() > 3 else out


def _over_positions(relevance: Tensor | None) -> Tensor:
    assert relevance is not None
    return relevance.flatten(3).sum(3) if relevance.dim() > 3 else relevance
