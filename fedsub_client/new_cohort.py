"""The cohort of a method's run before its first round, and what its devices hold."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from fedsub_client.cohort import Cohort
from fedsub_client.learner import Learner
from fedsub_client.own_heads import own_encoder
from fedsub_client.split_client import SplitClient
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.config.regression import check_task
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.federation import Card
from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import method
from fedsub_core.models.architecture import Shape
from fedsub_core.models.held import Held
from fedsub_core.models.model import Model
from fedsub_core.training.named import run_loss
from fedsub_core.wire.references import Reference


def make_cohort(
    settings: DeviceSettings, card: Card, clients: Sequence[SplitClient], device: str = "cpu"
) -> Cohort:
    """Return the clients of a method's run, in the state before its first round.

    Raises ConfigError if the method's hyperparameters do not fit the model, or the encoder not the
    samples. Raises ValueError if clients hold different parts of it: what they keep cannot be
    stacked.
    """
    method_card, training = method(settings.method), settings.training
    check_task(training.loss, training.regression, card)
    shares = {c.capacity for c in clients}
    if method_card.weak.narrow and len(shares) > 1:
        raise ValueError(
            f"{method_card.name}: got capacities {sorted(shares)} in one stack, expected one"
        )
    held, learner = held_and_learner(settings, card, clients[0].shape, clients[0].capacity)
    return Cohort(
        learner,
        method_card.receives(held.model, settings.hyper),
        card,
        clients,
        settings,
        device,
        held.encoder,
        method_card.trains,
        own_encoder(settings.encoder, settings.seed, clients[0].shape),
    )


def begun_anew(cohort: Cohort) -> Cohort:
    """Return a cohort in the state of one that did nothing yet, with its stacks."""
    other, sends = copy(cohort), cohort.learner.sends
    other.references = [one and Reference.empty(sends) for one in cohort.references]
    return other


def held_and_learner(
    settings: DeviceSettings, card: Card, shape: Shape, capacity: float = 1.0
) -> tuple[Held, Learner]:
    """Return the share of a model that devices with samples of `shape` hold, and its learner.

    Raises ConfigError; as :func:`make_cohort`.
    """
    method_card, hyper = method(settings.method), settings.hyper
    sums = settings.secure.secure_aggregation
    try:
        held = Held.of(method_card, settings, settings.seed, shape, len(card.classes), capacity)
        made = make_learner(method_card, held.model, settings.training, hyper, held.whole, sums)
        return held, made
    except ConfigError as error:  # a run has several methods
        raise ConfigError(f"method {settings.method!r}: {error}") from error


def make_learner(
    card: MethodCard,
    model: Model,
    settings: TrainingSettings,
    hyper: Any,
    whole: Model | None = None,
    sums: bool = False,
) -> Learner:
    """Return the device half of a method, or that of secure `sums`."""
    sends, predictor = card.sends(model, hyper), card.load_predictor()
    adds = card.sums.adds(model, hyper) if sums and card.sums and card.sums.adds else ()
    made: Learner = card.load_learner(sums)(model, settings, hyper, sends, predictor, whole, adds)
    if card.trains:
        made.loss = run_loss(settings, model)
    return made
