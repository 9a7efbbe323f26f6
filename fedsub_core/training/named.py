"""What a run names of training, checked before the first round: loss, optimiser, augmentation."""

from __future__ import annotations

from fedsub_core.config.own_training import CROSS_ENTROPY
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.models.model import Model
from fedsub_core.training.augmentation import check_augment
from fedsub_core.training.objectives import CE, Term
from fedsub_core.training.optimisers import optimiser_of
from fedsub_core.training.own_losses import OwnLoss, loss_of


def run_loss(settings: TrainingSettings, model: Model) -> Term:
    """Return the loss that a run names, once all that it names of training fits the model.

    Raises ConfigError if there is no such loss, optimiser or augmentation, it does not take its
    arguments, or does not fit the model's classes or samples.
    """
    optimiser_of(settings, 1)
    if settings.augment:
        check_augment(settings.augment, model.input_shape)
    if settings.loss == CROSS_ENTROPY:
        return CE
    loss = loss_of(settings.loss)
    if isinstance(loss, OwnLoss):
        loss.check(model.classes)
    return loss
