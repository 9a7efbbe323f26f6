"""Scores omega: how reliable each class's subnetwork of a client is."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import SCORES


def class_scores(kind: str, logits: Tensor, data: Stack) -> Tensor:
    """Return omega float32 [clients, classes], zero for a class the client lacks.

    Parameters
    ----------
    kind : ``one``, ``samples`` (of the class), ``accuracy`` (share of the class's samples that
        the client's model recognises) or ``accuracy-samples`` (their number).
    logits : [clients, samples, classes], of the client's own samples.
    """
    if kind not in SCORES:
        raise ConfigError(f"score: got {kind!r}, expected one of {', '.join(SCORES)}")
    of_class = (F.one_hot(data.y, logits.shape[2]) * data.valid.unsqueeze(2)).to(logits.dtype)
    samples = of_class.sum(1)
    if kind == "one":
        return (samples > 0).to(logits.dtype)
    if kind == "samples":
        return samples
    right = (logits.argmax(2) == data.y).to(logits.dtype).unsqueeze(2)
    recognised = (of_class * right).sum(1)
    return recognised if kind == "accuracy-samples" else recognised / samples.clamp(min=1)
