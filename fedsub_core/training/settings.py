"""The settings of local training."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TrainingSettings:
    """How a device trains in a round.

    Parameters
    ----------
    epochs : passes over the client's data.
    lr : learning rate of the first round.
    momentum : of SGD; the buffer starts at zero in every phase of every round.
    batch_size : samples of a step; the last partial batch is kept.
    optimiser : ``sgd`` or ``adam``.
    weight_decay : an L2 penalty's gradient, ``weight_decay * p``, joins the gradient.
    clip_norm : gradients of a client are scaled to at most this L2 norm; 0: not.
    lr_decay : the rate of round r is ``lr * lr_decay ** (r - 1)``.
    """

    epochs: int = 1
    lr: float = 0.005
    momentum: float = 0.9
    batch_size: int = 32
    optimiser: str = "sgd"
    weight_decay: float = 0.0
    clip_norm: float = 0.0
    lr_decay: float = 1.0

    def plain(self) -> TrainingSettings:
        """Return these with steps ``p - lr * gradient``, whatever the optimiser of the run is."""
        return replace(self, optimiser="sgd", momentum=0.0, weight_decay=0.0, clip_norm=0.0)

    def rate(self, round: int) -> float:
        """Return the learning rate of a round, from 1."""
        return self.lr if self.lr_decay == 1 else self.lr * self.lr_decay ** (round - 1)
