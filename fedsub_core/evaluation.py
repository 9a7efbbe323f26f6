"""Evaluation of stacks of clients: F1, accuracy and loss per client.

Macro F1 is taken over the classes present in a client's test set or predictions, which is
scikit-learn's default and FedSub's protocol.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.metrics import MOST_CONFUSED, ClientMetrics
from fedsub_core.paired import Gain
from fedsub_core.pytorch import Tensor, as_numpy, library

Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a stack of clients.

    Parameters
    ----------
    macro_f1, weighted_f1, accuracy : float64 [clients], in [0, 1]
    loss : float64 [clients], mean cross-entropy over a client's samples, nats
    f1 : float64 [clients, classes], nan for a class neither in the test set nor predicted
    examples : int64 [clients], test samples; with 0 every metric of that client is nan
    gains : each client's, or ()
    class_means : by name, each client's mean F1 of some classes, nan where it has none of them
    best_round : int64 [clients], of each client's model; None where the newest is tested
    validation : float64 [clients], macro F1 by which it was chosen, nan without a validation part
    confusion : int64 [clients, true class, predicted class], test samples; None where they are not
        counted
    own_heads : each client's, by the names of :data:`.metric_names.OWN_HEADS`; or ()
    """

    macro_f1: Tensor
    weighted_f1: Tensor
    accuracy: Tensor
    loss: Tensor
    f1: Tensor
    examples: Tensor
    gains: Sequence[Gain | None] = ()
    class_means: Mapping[str, Tensor] = field(default_factory=dict)
    best_round: Tensor | None = None
    validation: Tensor | None = None
    confusion: Tensor | None = None
    own_heads: Sequence[Mapping[str, float]] = ()

    def with_class_mean(self, name: str, classes: Tensor) -> Evaluation:
        """Return the evaluation with each client's mean F1 of `classes` [clients, classes]."""
        xp = library(self.f1)
        with np.errstate(invalid="ignore"):  # 0 / 0 is nan, exactly for who has none
            mean = xp.where(classes, xp.nan_to_num(self.f1), 0).sum(1) / classes.sum(1)
        return replace(self, class_means={**self.class_means, name: mean})

    def clients(self) -> list[ClientMetrics]:
        """Return each client's metrics as plain numbers, in the order of the stack."""
        columns = zip(
            self.macro_f1.tolist(),
            self.weighted_f1.tolist(),
            self.accuracy.tolist(),
            self.loss.tolist(),
            self.f1.tolist(),
            self.examples.tolist(),
            self.gains or [None] * len(self.examples),
            strict=True,
        )
        means = {name: values.tolist() for name, values in self.class_means.items()}
        rounds = None if self.best_round is None else self.best_round.tolist()
        scores = [] if self.validation is None else self.validation.tolist()
        confused = self._confusions()
        own = self.own_heads or [{}] * len(self.examples)
        return [
            ClientMetrics(
                macro,
                weighted,
                accuracy,
                loss,
                _defined(dict(enumerate(f1))) if examples else {},
                examples,
                gain,
                _defined({name: values[i] for name, values in means.items()}),
                None if rounds is None else rounds[i],
                _defined(dict(enumerate(scores))).get(i),
                confused[i],
                own[i],
            )
            for i, (macro, weighted, accuracy, loss, f1, examples, gain) in enumerate(columns)
        ]

    def _confusions(self) -> list[dict[tuple[int, int], int]]:
        found: list[dict[tuple[int, int], int]] = [{} for _ in self.examples]
        if self.confusion is not None:
            confusion = as_numpy(self.confusion)
            cells = np.argwhere(confusion)
            counts = confusion[tuple(cells.T)].tolist()
            for (client, true, predicted), count in zip(cells.tolist(), counts, strict=True):
                found[client][true, predicted] = count
        return found


def _defined(f1: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value for key, value in f1.items() if not math.isnan(value)}


def evaluate(logits: Tensor, y: Tensor, valid: Tensor) -> Evaluation:
    """Return the metrics of every client of a stack, all at once.

    Parameters
    ----------
    logits : float [clients, samples, classes]
    y : int64 [clients, samples]
    valid : bool [clients, samples]
        False where a sample is padding; what stands there, nan included, never counts.

    Raises DataError if the shapes do not belong together or a valid label is no class of the model.
    """
    if logits.ndim != 3 or y.shape != logits.shape[:2] or valid.shape != y.shape:
        raise DataError(
            f"evaluation: got logits {list(logits.shape)}, y {list(y.shape)} and valid "
            f"{list(valid.shape)}, expected [clients, samples, classes] and twice "
            "[clients, samples]; stack the clients with fedsub_core.data.stacks.stack"
        )
    xp = library(logits)
    y = xp.where(valid, y, 0)
    _check_labels(y, logits.shape[2])
    examples = valid.sum(1)
    counts = _confusion(logits.argmax(-1), y, valid, logits.shape[2])
    confusion = xp.asarray(counts, dtype=xp.float64)
    hits = xp.diagonal(confusion, 0, 1, 2)
    support, predicted = confusion.sum(2), confusion.sum(1)
    with np.errstate(invalid="ignore"):
        # 2 TP / (2 TP + FP + FN): 0/0 is nan, exactly for classes neither present nor predicted.
        f1 = 2 * hits / (support + predicted)
        return Evaluation(
            macro_f1=xp.nansum(f1, 1) / (~xp.isnan(f1)).sum(1),
            weighted_f1=(xp.nan_to_num(f1) * support).sum(1) / examples,
            accuracy=hits.sum(1) / examples,
            loss=_loss(logits, y, valid) / examples,
            f1=f1,
            examples=examples,
            confusion=counts if logits.shape[2] <= MOST_CONFUSED else None,
        )


def _check_labels(y: Tensor, classes: int) -> None:
    """Refuse labels that would be counted in another client's confusion matrix."""
    if prod(y.shape) and not 0 <= int(y.min()) <= int(y.max()) < classes:
        client = int(as_numpy(((y < 0) | (y >= classes)).any(1)).argmax())
        raise DataError(
            f"evaluation: client at position {client} of the stack has labels from "
            f"{int(y[client].min())} to {int(y[client].max())}, expected 0 to {classes - 1}; "
            "train with a model that has an output for every class of the federation"
        )


def _confusion(prediction: Tensor, y: Tensor, valid: Tensor, classes: int) -> Tensor:
    """Count ``[clients, true class, predicted class]``; padding falls into one bin at the end."""
    clients, cells, xp = y.shape[0], classes * classes, library(y)
    first = cells * (xp.ones_like(y[:, :1]).cumsum(0) - 1)
    cell = xp.where(valid, first + y * classes + prediction, clients * cells)
    counts: Tensor = xp.bincount(cell.reshape(-1), minlength=clients * cells + 1)
    return counts[:-1].reshape(clients, classes, classes)


def _loss(logits: Tensor, y: Tensor, valid: Tensor) -> Tensor:
    """Sum of the cross-entropy over each client's samples, ``[clients]`` float64."""
    if isinstance(logits, np.ndarray):
        below = logits - logits.max(2, keepdims=True)
        whole = np.log(np.exp(below).sum(2))
        chosen = np.take_along_axis(below, y[..., None], 2)[..., 0] - whole
        return -np.where(valid, chosen, 0).cumsum(1, dtype=np.float64)[:, -1]
    # Classes first: torch's softmax over a short last axis is ten times slower than the transpose.
    classes_first = logits.permute(2, 0, 1).contiguous()
    chosen = classes_first.log_softmax(0).gather(0, y.unsqueeze(0)).squeeze(0)
    # From first to last: how a sum goes must not depend on how far a stack is padded.
    return -chosen.masked_fill(~valid, 0).double().cumsum(1)[:, -1]
