"""Options on a target, which stands in the place of labels."""

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
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
        "each row is then a sample, or with --window each window, whose value is the rows' mean",
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
            Where labels are asked for, too, or the range is none.
        """
        label, window = getattr(self, "label", ""), getattr(self, "window", AUTO)
        if not self.target:
            if given := self.target_unit or self.target_range:
                raise ConfigError(f"target: got {given!r} without one, expected its column")
            return
        if label not in ("", self.target):
            raise ConfigError(f"target: got {self.target!r} and label {label!r}, expected one")
        _ = self.ends
        window = "none" if window == AUTO else window
        for key, value in (("label", self.target), ("window", window),
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
