"""What a run of a target excludes: a number in the place of classes is learnt (regression)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedsub_core.config.own_training import HUBER, SQUARED
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS

if TYPE_CHECKING:
    from fedsub_core.config.run_config import RunConfig
    from fedsub_core.data.card import Card


def check_regression(config: RunConfig, where: str) -> None:
    """Refuse, in a run of a target, methods and options that need classes.

    Raises ConfigError; it names the methods or the option.
    """
    got = expected = ""
    if not config.regression:
        return
    if needing := [name for name in config.methods if not METHODS[name].regression]:
        known = ", ".join(name for name, card in METHODS.items() if card.regression)
        got, expected = f"{', '.join(needing)}, which need classes", f"methods among {known}"
    solved = [name for name in config.methods if not METHODS[name].trains]
    if not got and solved and config.loss.startswith(HUBER):
        got, expected = f"{', '.join(solved)}, which solves for least squares", f"loss = {SQUARED}"
    ridge = config.hyper.get("fedsub-ridge")
    if not got and ridge is not None and ridge.groups == "class":
        got, expected = "fedsub-ridge.groups = class", "groups = none"
    for key, value, usual in (
        ("unlabelled", config.unlabelled, 0),
        ("sizes", config.sizes, ""),
    ):
        if not got and value != usual:
            got, expected = f"{key} = {value}, which goes by classes", f"{key} = {usual!r}"
    if got:
        raise ConfigError(f"{where}: loss = {config.loss}: got {got}, expected {expected}")


def check_task(loss: str, regression: bool, card: Card) -> None:
    """Refuse a run of classes on data of a target, and a run of a target on data of classes.

    Raises ConfigError; it names the loss, and what the data have.
    """
    if regression == (card.target is not None):
        return
    has = f"the target {card.target.name!r}" if card.target else f"{len(card.classes)} classes"
    other = f"{SQUARED} or {HUBER}" if card.target else "a loss of classes, such as cross-entropy"
    raise ConfigError(f"loss: got {loss} for data {card.name!r} with {has}, expected {other}")
