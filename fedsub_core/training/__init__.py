"""Local training over stacks of clients: a loop, objectives that add up, optimisers."""

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.training.batches import Batch, Batches, Met
from fedsub_core.training.gradients import Gradient, batch_gradient
from fedsub_core.training.loop import Trained, train
from fedsub_core.training.objectives import (
    CE,
    CrossEntropy,
    Masked,
    Objective,
    Own,
    PrototypePull,
    Pull,
    Term,
)
from fedsub_core.training.optimisers import Descent
from fedsub_core.training.passes import Passes, each_batch
from fedsub_core.turn import Turn

__all__ = [
    "CE",
    "Batch",
    "Batches",
    "CrossEntropy",
    "Descent",
    "Gradient",
    "Masked",
    "Met",
    "Objective",
    "Own",
    "Passes",
    "PrototypePull",
    "Pull",
    "Term",
    "Trained",
    "TrainingSettings",
    "Turn",
    "batch_gradient",
    "each_batch",
    "train",
]
