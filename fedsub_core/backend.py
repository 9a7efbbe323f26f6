"""Who computes: the compiled kernels, or PyTorch. This is the one place where it is decided.

Whoever can do a piece of work both ways asks here with all that the answer depends on, and looks at
the answer alone. It follows from model, objective, settings and device, never from who shares a
stack. What does not fit the model is an error, not PyTorch's to compute.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from fedsub_core.config.own_training import SGD
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.kernels.known import AFFINE, Known, ends_in_classes
from fedsub_core.kernels.library import Kernels, kernels
from fedsub_core.pytorch import Tensor, library, torch

log = logging.getLogger("fedsub")


@dataclass(frozen=True)
class Backend:
    """Who computes a piece of work, and why.

    Parameters
    ----------
    kernels : the compiled kernels; None: PyTorch computes (of windows, and without PyTorch, NumPy).
    why : what speaks against the kernels; "" where they compute.
    """

    kernels: Kernels | None
    why: str = ""

    @property
    def name(self) -> str:
        """``kernels`` or ``pytorch``."""
        return "kernels" if self.kernels else "pytorch"

    def __str__(self) -> str:
        return f"{self.name} ({self.why})" if self.why else self.name


class Compilable(Protocol):
    """A term of an objective, as far as it matters here."""

    @property
    def compiled(self) -> bool:
        """Whether the kernels know it."""


def for_passes(model: Sequence[Known], x: Tensor) -> Backend:
    """Return the backend of forward passes of `model` over samples such as `x`."""
    follows = not isinstance(x, np.ndarray) and torch.is_grad_enabled()
    return _answer(_beyond(model, x) or ("autograd follows" if follows else ""))


def for_gradients(model: Sequence[Known], terms: Sequence[Compilable], x: Tensor) -> Backend:
    """Return the backend of the gradient of an objective's `terms` on batches such as `x`."""
    return _said("gradients", _answer(_beyond(model, x) or _untrained(model, terms)))


def for_training(
    model: Sequence[Known],
    terms: Sequence[Compilable],
    x: Tensor,
    settings: TrainingSettings,
    own_steps: bool = False,
) -> Backend:
    """Return the backend of whole epochs of steps; with `own_steps` a method makes its own."""
    against = _beyond(model, x) or _untrained(model, terms)
    if not against and own_steps:
        against = "the method takes gradients of its own"
    if not against and settings.rule != SGD:
        against = f"the optimiser is {settings.rule}"
    if not against and settings.augment:
        against = f"samples are changed by {settings.augment}"
    if not against and settings.clip_norm:
        against = "gradients are clipped"
    return _said("training", _answer(against))


def for_relevance(model: Sequence[Known], x: Tensor) -> Backend:
    """Return the backend of the relevance of units for samples such as `x`."""
    against = _beyond(model, x)
    if not against and not ends_in_classes(model):
        against = "the last layer makes no logits"
    if not against and model[0].kind != AFFINE:
        against = "the first layer has no units"
    if not against and not all(layer.relu for layer in model[:-1] if layer.kind == AFFINE):
        against = "what a layer sees may be negative"
    return _said("relevance", _answer(against))


def for_windows() -> Backend:
    """Return the backend of features of windows; where it is not the kernels, it is NumPy."""
    return _answer("")


def _beyond(model: Sequence[Known], x: Tensor) -> str:
    """Return why the kernels do not compute with `model` on `x` at all; "": they do."""
    here = isinstance(x, np.ndarray)
    if not here and x.device.type != "cpu":
        return f"it computes on {x.device.type}"
    if x.dtype != library(x).float32:
        return f"numbers are {str(x.dtype).removeprefix('torch.')}"
    return "" if model else "the kernels do not know all layers"


def _untrained(model: Sequence[Known], terms: Sequence[Compilable]) -> str:
    """Return why the kernels do not know an objective of `terms`; "": they do."""
    if not ends_in_classes(model):
        return "the last layer makes no logits"
    for term in terms:
        if not term.compiled:
            return f"the kernels do not know {term}"
        if sum(type(other) is type(term) for other in terms) > 1:
            return f"the objective has more than one {type(term).__name__}"
    return ""


def _answer(against: str) -> Backend:
    found = None if against else kernels()
    return Backend(found, against or ("" if found else "there are no compiled kernels here"))


def _said(work: str, answer: Backend) -> Backend:
    _say(work, str(answer))
    return answer


@cache
def _say(work: str, answer: str) -> None:
    """Name an answer in the log, once in a process."""
    log.info("%s by %s", work, answer)
