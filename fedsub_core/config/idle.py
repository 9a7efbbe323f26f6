"""Idle options: those that are set and change nothing for any method of a run."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fedsub_core.config.own_training import SGD
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard, nothing
from fedsub_core.methods.table import METHODS
from fedsub_core.models.names import AUTO, MLP
from fedsub_core.options import describe, option_values

if TYPE_CHECKING:
    from fedsub_core.config.run_config import RunConfig

_TRAINING = tuple(one.key for one in describe(TrainingSettings))
_UNSEEN = ("unseen-share", "unseen-by", "unseen-people", "unseen-labels", "unseen-rounds")


def idle(config: RunConfig) -> dict[str, str]:
    """Return the reason, by key, why an option is idle.

    An option at its default is not idle: it may never have been given.
    """
    cards = [METHODS[name] for name in config.methods]
    why: dict[str, str] = {}
    if all(card.training.solves for card in cards):
        kinds = " or ".join(dict.fromkeys(card.training.solves for card in cards))
        why |= dict.fromkeys(
            ("model", "hidden", "norm"), f"the model that is solved for is {kinds}"
        )
    elif config.model not in (AUTO, MLP):
        why["hidden"] = f"hidden layers are those of mlp, and the model is {config.model}"
    for key in _TRAINING:
        if key == "loss" and config.regression:  # it says what is predicted
            continue
        if all(_ignores(card, key) for card in cards):
            trains = any(card.trains for card in cards)
            why[key] = "steps have a rule of their own" if trains else "nothing is trained in steps"
    if config.rule != SGD and not config.rule.lower().startswith(f"{SGD}("):
        why.setdefault("momentum", f"{config.rule} has moments of its own")
    if config.split != "unseen":
        why |= dict.fromkeys(_UNSEEN, f"nobody is held out with split = {config.split}")
    elif config.unseen_people:
        named = "people are kept out by name with unseen-people"
        why |= dict.fromkeys(("unseen-share", "unseen-by"), named)
    if config.fold or config.split == "given":
        by = "fold" if config.fold else "the parts in people's files"
        why["test-share"] = f"{by} decides what is tested"
    if config.standardise_anew > config.rounds:
        why["standardise-anew"] = f"the run has {config.rounds} rounds"
    if not config.unlabelled:
        why["unlabelled-classes"] = "everybody has all labels with unlabelled = 0"
    if not any(card.weak.narrow for card in cards):
        whole = "every device holds everything"
        why |= dict.fromkeys(("capacities", "capacity-mode"), whole)
    silent = all(card.sends is nothing for card in cards)
    if silent:
        why |= dict.fromkeys(("upload-encoding", "download-encoding"), "no model travels")
    if config.robust_settings.filters and (silent or not any(card.filtered for card in cards)):
        why["robust"] = "uploads are checked one by one, without these filters"
        if silent:
            why["robust"] = "no model travels"
    values = option_values(config)
    usual = {one.key: one.default for one in describe(type(config))}
    return {key: text for key, text in why.items() if values[key] != usual[key]}


def named_idle(config: RunConfig) -> list[str]:
    """Return a sentence on each idle option."""
    values, names = option_values(config), ", ".join(config.methods)
    return [
        f"{key} = {values[key]} does nothing for {names}: {why}."
        for key, why in idle(config).items()
    ]


def check_given(config: RunConfig, given: Collection[str], where: str) -> None:
    """Refuse idle options that a person gave for this very run.

    What stands in a file may be meant for other methods, and is named instead (:func:`named_idle`).

    Parameters
    ----------
    where : such as the command line, which the message begins with.

    Raises ConfigError; it names the option, the run's methods, and why it changes nothing.
    """
    values = option_values(config)
    for key, why in idle(config).items():
        if key in given:
            raise ConfigError(
                f"{where}: {key}: got {values[key]} with {', '.join(config.methods)}, for which it "
                f"does nothing: {why}. Leave it out, or change what it depends on"
            )


def _ignores(card: MethodCard, key: str) -> bool:
    return not card.trains or key in card.training.ignores
