"""Options on recordings as loggers write them: classes by intervals of time."""

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.options import choice, option
from fedsub_data.importing.time_options import TimeOptions
from fedsub_data.importing.written_options import AUTO


@dataclass(frozen=True)
class LoggerOptions(TimeOptions):
    """Options on what loggers write beside a table; every default fits a table with its labels."""

    intervals: str = option(
        "",
        "classes by start and end: a CSV or JSON file, a folder or pattern of files named as "
        "people or recordings, or the name of a file beside each recording, such as tags.csv",
    )
    intervals_unit: str = choice(
        AUTO, "s", "ms", "us", "ns", doc="unit of the intervals' times that are numbers"
    )
    marks: str = option(
        "",
        "classes between bare marks of the intervals, in their order, with commas: sit,-,walk; "
        "- is no class",
    )

    layout: str = option(
        "",
        "how the logger writes recordings: phyphox, sensor-logger, empatica-e4, actigraph, "
        "shimmer, androsensor, or a file such as mine.toml; guessed if left out",
    )
    sensors: str = option(
        "",
        "sensors of a recording with a file for each, with commas; they are joined on time. If "
        "left out, those that the layout uses",
    )

    @property
    def named_sensors(self) -> tuple[str, ...]:
        """Sensors that were named, in their order."""
        return tuple(part.strip() for part in self.sensors.split(",") if part.strip())

    @property
    def mark_classes(self) -> tuple[str, ...]:
        """Classes of the stretches between bare marks, in their order; ``-`` is none."""
        return tuple(part.strip() for part in self.marks.split(",")) if self.marks else ()

    def check_intervals(self, classes_by: str) -> None:
        """Refuse intervals beside another option that says the classes, and parts of them alone.

        `classes_by`: the other option; "" for none.

        Raises ConfigError; it names both.
        """
        if self.intervals and classes_by:
            raise ConfigError(
                f"intervals: got {self.intervals!r}, and classes by {classes_by}; expected one of "
                "them"
            )
        if not self.intervals and (self.marks or self.intervals_unit != AUTO):
            key = "marks" if self.marks else "intervals-unit"
            raise ConfigError(f"{key}: got it without intervals, expected both")
        if "" in self.mark_classes:
            raise ConfigError(f"marks: got {self.marks!r}, expected a class, or -, between commas")
