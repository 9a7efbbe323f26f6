"""A target in the place of labels: its options, its range, and the value of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.target import Target
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import option
from fedsub_data.importing.written_options import AUTO, WrittenOptions

#: Different values of a target: each is read as a label is.
MOST_VALUES = 20_000


@dataclass(frozen=True)
class TargetOptions(WrittenOptions):
    """Options on a target; every default fits a table with labels."""

    target: str = option(
        "",
        "column of numbers to be predicted, such as pulse, in the place of classes (regression); "
        "each row is then a sample",
    )
    target_unit: str = option("", "unit of the target, in words")
    target_range: str = option(
        "",
        "least and greatest value of the target that there can be, such as 40,180; devices state "
        "it. If left out, the least and greatest that there are",
    )

    def take_target(self) -> None:
        """Let the target's column be read as that of labels, each value one of them.

        Raises
        ------
        ConfigError
            Where labels or windows are asked for, too, or the range is none.
        """
        label, window = getattr(self, "label", ""), getattr(self, "window", AUTO)
        if not self.target:
            if given := self.target_unit or self.target_range:
                raise ConfigError(f"target: got {given!r} without one, expected its column")
            return
        if label not in ("", self.target):
            raise ConfigError(f"target: got {self.target!r} and label {label!r}, expected one")
        if window not in (AUTO, "none"):
            raise ConfigError(
                f"target: got {self.target!r} with window = {window}, expected none: a target has "
                "many values in a window. Make features of windows before the import"
            )
        _ = self.ends
        for key, value in (("label", self.target), ("window", "none"),
                           ("measured_labels", "keep"), ("spelling", "keep")):  # fmt: skip
            object.__setattr__(self, key, value)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the range that were given; None: by the values."""
        if not self.target_range:
            return None
        try:
            low, high = map(float, self.target_range.split(","))
            if -1e300 < low < high < 1e300:
                return low, high
        except ValueError:
            pass
        raise ConfigError(
            f"target-range: got {self.target_range!r}, expected two numbers, the least first, "
            "such as 40,180"
        )


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


def with_values(data: ClientData, labels: tuple[str, ...], options: TargetOptions) -> ClientData:
    """Return a person's samples with the values that their labels are."""
    if not options.target:
        return data
    values = np.array([_value(name, options.target) for name in labels])
    return replace(data, y=values[data.y])


def _value(text: str, target: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(
            f"target {target!r}: got {text!r}, expected numbers alone. no-label says which texts "
            "mean no value; or name another column"
        ) from None
