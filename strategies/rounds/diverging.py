"""The warning on training that diverged: uploads without finite numbers, and the rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.errors import NumbersRefused, cut
from fedsub_core.methods.card import MethodCard

#: Clients that are named at most.
NAMED = 10


def training_diverged(
    refused: Mapping[str, NumbersRefused],
    asked: int,
    card: MethodCard,
    hyper: Any,
    training: TrainingSettings,
) -> str:
    """Return the warning of a round whose uploads held NaN, infinite or huge numbers.

    Parameters
    ----------
    refused : by client; one at least.
    asked : how many were asked to train.
    hyper, training : the method's and the run's settings, which have the rates.
    """
    named = [f"{client} ({error.what})" for client, error in sorted(refused.items())[:NAMED]]
    more = f" and {len(refused) - NAMED} more" if len(refused) > NAMED else ""
    error = next(iter(refused.values()))
    fault = (
        f"{len(refused)} of {asked} uploads are not used, for {error.got} (expected "
        f"{error.expected}): {cut(', '.join(named))}{more}"
    )
    if not card.rate_keys:
        return f"{fault}. No device computes such numbers of its samples"
    values = [training.lr, *(getattr(hyper, rate) for rate in card.training.rates)]
    rates = " or ".join(f"{k} ({v:g})" for k, v in zip(card.rate_keys, values, strict=True))
    return (
        f"{fault}. So ends training that diverged, at too high a learning rate: lower {rates}. A "
        "device that lies may send the same"
    )
