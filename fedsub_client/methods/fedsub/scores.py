"""Scores omega: how reliable each class's subnetwork of a client is."""

from __future__ import annotations

from torch import Tensor

from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import SCORES


def class_scores(kind: str, logits: Tensor, judged: Stack, data: Stack) -> Tensor:
    """Return omega float32 [clients, classes], zero for a class the client lacks.

    Parameters
    ----------
    kind : ``one``, ``samples`` (of the class), ``accuracy`` (share of the class's samples that
        the client's model recognises) or ``accuracy-samples`` (their number).
    logits : [clients, samples, classes], of `judged`.
    judged : what accuracy is counted on, all of `data` or a part of it.
    data : the client's own samples.
    """
    if kind not in SCORES:
        raise ConfigError(f"score: got {kind!r}, expected one of {', '.join(SCORES)}")
    samples = data.of_class(logits.shape[2]).sum(1).to(logits.dtype)
    if kind == "one":
        return (samples > 0).to(logits.dtype)
    if kind == "samples":
        return samples
    of_class = judged.of_class(logits.shape[2])
    right = (logits.argmax(2) == judged.y).unsqueeze(2)
    recognised, seen = (of_class * right).sum(1).to(logits.dtype), of_class.sum(1).clamp(min=1)
    # Where all are judged the quotient is 1, and the number of recognised ones exact.
    return recognised * (samples / seen) if kind == "accuracy-samples" else recognised / seen
