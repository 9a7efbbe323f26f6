"""Losses that a run names: cross-entropy with weights or smoothing, focal loss, a user's function.

Each is a function of one client's samples of a step, so a client trains alike whoever shares its
stack. They go by autograd; the compiled kernels know plain cross-entropy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from fedsub_core.config.own_training import CROSS_ENTROPY, HUBER, SQUARED
from fedsub_core.config.parts import only, part_of
from fedsub_core.data.target import predicted
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.models.names import is_place
from fedsub_core.pytorch import F, Tensor, torch
from fedsub_core.training.batches import Batch
from fedsub_core.training.objectives import CE, Forward, Term
from fedsub_core.training.own_functions import calling, function_at

TAKES = "(logits [n, classes], y [n])"
#: Logits of a model that diverged: their squares are no float32 any more.
_HUGE = 1e18
#: Parameter of a loss that gets the client's training samples by class, float32 [classes].
COUNTS = "counts"
#: Weights of classes that make all that a client has count the same.
BALANCED = "balanced"


def cross_entropy(
    logits: Tensor, y: Tensor, weights: Any = None, smoothing: float = 0.0, *, counts: Tensor
) -> Tensor:
    """Return the cross-entropy of a batch, as ``torch.nn.CrossEntropyLoss``.

    Parameters
    ----------
    weights : of each class; ``balanced``: by the client's training samples, n / (k * n_c) of
        its k classes.
    smoothing : share of the label that goes to all classes alike, in [0, 1).
    """
    if not (isinstance(smoothing, int | float) and 0 <= smoothing < 1):
        raise ConfigError(f"smoothing: got {smoothing!r}, expected a number of 0 to below 1")
    logs, each = logits.log_softmax(-1), _weights(weights, counts)
    own = each[y] * -logs.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    alike = (each * -logs).mean(-1)
    return ((1 - smoothing) * own + smoothing * alike).sum() / each[y].sum()


def focal(
    logits: Tensor, y: Tensor, gamma: float = 2.0, weights: Any = None, *, counts: Tensor
) -> Tensor:
    """Return the focal loss, ``-(1 - p)**gamma * log p`` of each sample's class.

    Source: Lin et al., Focal loss for dense object detection, ICCV 2017, eq. 5; `weights` are its
    alpha, whose sum over the batch divides.
    """
    if not (isinstance(gamma, int | float) and gamma >= 0):
        raise ConfigError(f"gamma: got {gamma!r}, expected a number of at least 0")
    log = logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)
    each = _weights(weights, counts)[y]
    return (each * -((1 - log.exp()).clamp_min(0) ** gamma) * log).sum() / each.sum()


def squared(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the squared error of each sample, of places in the target's range."""
    error: Tensor = (predicted(outputs) - y) ** 2
    return error


def huber(outputs: Tensor, y: Tensor, delta: float = 0.1) -> Tensor:
    """Return the Huber loss of each sample, linear beyond `delta`, a share of half the range.

    Source: Huber, Robust estimation of a location parameter, 1964.
    """
    if not (isinstance(delta, int | float) and delta > 0):
        raise ConfigError(f"delta: got {delta!r}, expected a number above 0")
    return F.huber_loss(predicted(outputs), y, reduction="none", delta=delta)


LOSSES: dict[str, Callable[..., Any]] = {
    CROSS_ENTROPY: cross_entropy,
    "focal": focal,
    SQUARED: squared,
    HUBER: huber,
}


class OwnLoss(Term):
    """A loss that a run names.

    Parameters
    ----------
    name : as the run has it.
    function : of logits ``[n, classes]`` and classes ``[n]`` of one client; returns a number, or
        one of each sample, whose mean is taken.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        try:
            self.counts = COUNTS in signature(function).parameters
        except ValueError:  # C code has none
            self.counts = False

    def __str__(self) -> str:
        """Return the loss's name, by which a backend is chosen."""
        return f"the loss {self.name}"

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`.

        Raises ConfigError if the function fails, or returns another shape, a number that is not
        finite, or one that does not follow from the logits; it names client and round.
        """
        batch, logits = forward.batch, forward.outputs[-1]
        values = []
        for i, count in enumerate((batch.weight > 0).sum(1).tolist()):
            if count:
                counts = class_counts(batch, i, logits.shape[-1]) if self.counts else None
                found = self.of(logits[i, :count], batch.y[i, :count], counts, batch.at(i))
                weight = batch.weight[i, :count]
                values.append((found * weight).sum() if found.ndim else found * weight.sum())
        return torch.stack(values).sum() if values else logits.sum() * 0

    def of(self, logits: Tensor, y: Tensor, counts: Tensor | None, where: str) -> Tensor:
        """Return the function's value of one client's samples, checked; see `loss`."""
        given = {} if counts is None else {COUNTS: counts}
        with calling(f"loss {self.name}", where, f"a number of {TAKES}"):
            found = self.function(logits, y, **given)
        got = ""
        if not isinstance(found, torch.Tensor):
            got = f"a {type(found).__name__}"
        elif found.shape not in ((), y.shape):
            got = f"a tensor of shape {list(found.shape)}"
        elif not found.requires_grad:
            got = "a tensor without a gradient"
        # Where training diverged the logits are huge or no numbers, and that is said elsewhere.
        elif not bool(found.isfinite().all()) and bool((logits.abs() < _HUGE).all()):
            got = f"{found.detach().flatten()[~found.flatten().isfinite()][0].item()}"
        if got:
            raise ConfigError(
                f"loss {self.name}: {where}: got {got}, expected a finite number, or {len(y)}, one "
                "of each sample, that follow from the logits"
            )
        value: Tensor = found
        return value

    def check(self, classes: int) -> None:
        """Raise what :meth:`loss` would, of two samples of that many classes."""
        with torch.enable_grad():
            logits = torch.zeros(2, classes, requires_grad=True)
            counts = torch.ones(classes) if self.counts else None
            self.of(logits, torch.arange(2) % classes, counts, f"tried on {classes} classes")


def loss_of(text: str) -> Term:
    """Return the term of a run's ``loss``.

    Raises ConfigError if there is no such loss, or it does not take such arguments.
    """
    part = only(text, "loss")
    if part.name == CROSS_ENTROPY and part.plain:
        return CE
    if not is_place(part.name):
        return OwnLoss(text, part.bound(part_of(part, LOSSES, "loss"), "loss", 2, (COUNTS,)))
    return OwnLoss(text, function_at(part, "loss", 2, TAKES, (COUNTS,)))


def class_counts(batch: Batch, i: int, classes: int) -> Tensor:
    """Return the training samples of a batch's `i`-th client by class, float32 [classes]."""
    y, weight = (batch.y, batch.weight) if batch.whole is None else batch.whole
    return torch.bincount(y[i][weight[i] > 0], minlength=classes).to(torch.float32)


def _weights(weights: Any, counts: Tensor) -> Tensor:
    """Return the weight of each class, float32 [classes].

    Raises ConfigError if they are not one positive number for each class.
    """
    if weights is None:
        return torch.ones_like(counts)
    if weights == BALANCED:
        return torch.where(counts > 0, counts.sum() / ((counts > 0).sum() * counts), 0.0)
    each = weights if isinstance(weights, tuple | list) else (weights,)
    if len(each) != len(counts) or not all(isinstance(w, int | float) and w > 0 for w in each):
        raise ConfigError(
            f"weights: got {len(each)}: {', '.join(map(str, each))}; expected {BALANCED}, or "
            f"{len(counts)} numbers above 0, one for each class in the card's order"
        )
    return torch.tensor(each, dtype=torch.float32, device=counts.device)
