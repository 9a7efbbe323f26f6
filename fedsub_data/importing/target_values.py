"""The values of a target, which rows have in the place of labels, and their range."""

from dataclasses import replace

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.target import Target
from fedsub_core.errors import DataError
from fedsub_data.importing.target_options import TargetOptions


def with_target(card: Card, options: TargetOptions) -> Card:
    """Return a card of labels as that of the target that they are values of.

    Raises
    ------
    DataError
        Where a label is no number, or all are the same and no range was given.
    """
    if not options.target:
        return card
    values = [_value(name, options.target) for name in card.classes]
    low, high = options.ends or (min(values), max(values))
    if not low < high:
        raise DataError(
            f"{card.name}: target {options.target!r}: got {low:g} alone, expected two values at "
            "least, or target-range"
        )
    return replace(card, classes=(), target=Target(options.target, options.target_unit, low, high))


def with_values(data: ClientData, labels: tuple[str, ...], target: Target | None) -> ClientData:
    """Return a person's samples with the values that their labels are.

    Raises DataError where one is beyond the target's range.
    """
    if target is None:
        return data
    y = np.array([_value(name, target.name) for name in labels])[data.y]
    if (beyond := y[~((target.low <= y) & (y <= target.high))]).size:
        raise DataError(
            f"client {data.client!r}: target {target.name!r}: got {float(beyond[0])!r}, expected "
            f"{target.low:g} to {target.high:g}, as target-range says. Widen it, or mend the value"
        )
    return replace(data, y=y)


def _value(text: str, target: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(
            f"target {target!r}: got {text!r}, expected numbers alone. no-label says which texts "
            "mean no value; or name another column"
        ) from None
