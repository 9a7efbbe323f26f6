"""The values of a target, which rows have in the place of labels, and their range."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.target import Target
from fedsub_core.errors import DataError
from fedsub_data.importing.plan import Plan
from fedsub_data.importing.target_options import TargetOptions


def with_target(planned: Plan, options: TargetOptions) -> Plan:
    """Return a plan whose labels are values of a target, with that on its card.

    Raises
    ------
    DataError
        Where a label is no number, or all are the same and no range was given.
    """
    card = planned.card
    if not options.target:
        return planned
    values = [_value(name, options.target) for name in card.classes]
    low, high = options.ends or (min(values), max(values))
    if not low < high:
        raise DataError(
            f"{card.name}: target {options.target!r}: got {low:g} alone, expected two values at "
            "least, or target-range"
        )
    card = replace(card, classes=(), target=Target(options.target, options.target_unit, low, high))
    # What has no label has the code -1, and so the last value.
    return replace(planned, card=card, values=np.array([*values, np.nan]))


def labelled(person: str, y: NDArray[np.int64], planned: Plan) -> NDArray[np.float64 | np.int64]:
    """Return the labels of a person's rows; of a target their values, NaN where there is none.

    Raises DataError where a value is beyond the target's range.
    """
    if planned.values is None:
        return y
    target, values = planned.card.target, planned.values[y]
    assert target is not None
    if (beyond := values[(values < target.low) | (values > target.high)]).size:
        raise DataError(
            f"client {person!r}: target {target.name!r}: got {float(beyond[0])!r}, expected "
            f"{target.low:g} to {target.high:g}, as target-range or the card says. Mend the value, "
            "or import anew with a wider range"
        )
    return values


def _value(text: str, target: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(
            f"target {target!r}: got {text!r}, expected numbers alone. no-label says which texts "
            "mean no value; or name another column"
        ) from None
