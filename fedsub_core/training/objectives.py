"""What local training minimises: terms that add up.

``CE + Pull(anchor, 0.1)`` is cross-entropy with a proximal term. A term has a loss, from which
autograd derives its gradient, or changes the gradient itself. The compiled kernels know
cross-entropy, pulls, pulls to prototypes, and masks (:mod:`fedsub_core.training.gradients`
chooses, a test holds both equal).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.pytorch import F, Tensor, torch
from fedsub_core.training.batches import Batch

#: Every term's own tensors, in the order of the terms.
Own = Sequence[Params]


@dataclass(frozen=True, eq=False)
class Forward:
    """One forward pass of a stack of clients.

    Parameters
    ----------
    outputs : logits ``[clients, samples, classes]`` of every exit, the last one's at the end.
    embedding : input of the last layer with units, ``[clients, samples, d]``.
    """

    params: Params
    batch: Batch
    outputs: Sequence[Tensor]
    embedding: Tensor


class Term:
    """One part of an objective."""

    def __str__(self) -> str:
        """Return the term's name, by which a backend is chosen."""
        return type(self).__name__

    def __add__(self, other: Term | Objective) -> Objective:
        """Return the sum."""
        return Objective((self,)) + other

    @property
    def active(self) -> bool:
        """Whether it does anything; a term of weight 0 adds no operation."""
        return True

    @property
    def compiled(self) -> bool:
        """Whether the compiled kernels know it."""
        return False

    def stacked(self) -> Params:
        """Return the tensors with a client axis that it needs, by name."""
        return {}

    def loss(self, forward: Forward, own: Params) -> Tensor | None:
        """Return its value summed over clients for autograd; `own` are :meth:`stacked`'s rows."""
        return None

    def change(self, params: Params, own: Params, into: Params) -> None:
        """Change the gradient in `into` after autograd, in the order of the terms."""


@dataclass(frozen=True)
class Objective:
    """A sum of terms."""

    terms: tuple[Term, ...]

    def __add__(self, other: Term | Objective) -> Objective:
        """Return the sum."""
        return Objective(self.terms + (other.terms if isinstance(other, Objective) else (other,)))

    @property
    def active(self) -> tuple[Term, ...]:
        """The terms that do something."""
        return tuple(term for term in self.terms if term.active)


def terms_of(objective: Term | Objective) -> tuple[Term, ...]:
    """Return the terms that do something."""
    return (objective + Objective(())).active


@dataclass(frozen=True)
class CrossEntropy(Term):
    """Mean cross-entropy over a client's batch; `exits` weighs every exit, () is the last alone."""

    exits: tuple[float, ...] = ()

    @property
    def compiled(self) -> bool:
        """They know the last exit alone."""
        return not self.exits

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        weights = self.exits or (0.0,) * (len(forward.outputs) - 1) + (1.0,)
        if len(weights) != len(forward.outputs):
            raise ConfigError(
                f"cross-entropy: got weights for {len(weights)} exits, the model has "
                f"{len(forward.outputs)}"
            )
        parts = [
            weight * (cross_entropy(logits, forward.batch.y) * forward.batch.weight).sum()
            for weight, logits in zip(weights, forward.outputs, strict=True)
            if weight
        ]
        return torch.stack(parts).sum()


CE = CrossEntropy()


@dataclass(frozen=True, eq=False)
class Pull(Term):
    """A proximal term, ``weight / 2 * sum((p - anchor)**2)``: its gradient is no mean.

    Parameters
    ----------
    anchor : stacked tensors by name; parameters that are not named are not pulled.
    weight : >= 0.
    where : stacked factors of single numbers, such as a mask; empty: 1.
    """

    anchor: Params
    weight: float
    where: Params = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether it pulls."""
        return self.weight != 0

    compiled = True

    def stacked(self) -> Params:
        """Anchors and factors."""
        return {f"anchor/{n}": t for n, t in self.anchor.items()} | {
            f"where/{n}": t for n, t in self.where.items()
        }

    def change(self, params: Params, own: Params, into: Params) -> None:
        """Add ``weight * (p - anchor)``."""
        # By autograd of the sum of squares, an epoch of an MLP takes twice as long.
        for name, gradient in into.items():
            if (anchor := own.get(f"anchor/{name}")) is not None:
                away = params[name] - anchor
                if (factor := own.get(f"where/{name}")) is not None:
                    away.mul_(factor)
                gradient.add_(away, alpha=self.weight)


@dataclass(frozen=True, eq=False)
class Masked(Term):
    """Only some numbers train: gradients are multiplied by `mask`, stacked tensors by name.

    What a mask leaves out keeps its value; to be zero it must be zero at the start.
    """

    mask: Params

    compiled = True

    def stacked(self) -> Params:
        """Return the masks."""
        return self.mask

    def change(self, params: Params, own: Params, into: Params) -> None:
        """Multiply the gradient, and the momentum in it."""
        for name, gradient in into.items():
            if name in own:
                gradient.mul_(own[name])


@dataclass(frozen=True, eq=False)
class OfPrototypes(Term):
    """A term that pulls to prototypes of classes.

    Parameters
    ----------
    prototypes : [clients, classes, d]
    held : bool [clients, classes], which prototypes there are.
    weight : >= 0.
    """

    prototypes: Tensor
    held: Tensor
    weight: float

    @property
    def active(self) -> bool:
        """Whether it pulls."""
        return self.weight != 0

    def stacked(self) -> Params:
        """Return prototypes and which there are."""
        return {"prototypes": self.prototypes, "held": self.held}


class PrototypePull(OfPrototypes):
    """Pulls embeddings to their class's prototype: ``weight * mean((h(x) - prototype_y)**2)``.

    The mean is over the batch and the embedding's d numbers; samples of a class without a prototype
    count 0 in it. Source: Tan et al., FedProto, AAAI 2022, eq. 6, with the mean squared error of
    its authors' code.
    """

    compiled = True

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        y = forward.batch.y
        clients = torch.arange(len(y), device=y.device).unsqueeze(1)
        away = forward.embedding.flatten(2) - own["prototypes"][clients, y]
        known = own["held"][clients, y] * forward.batch.weight
        return self.weight * ((away**2).mean(2) * known).sum()


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of every sample, ``[clients, samples]``, nats."""
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
