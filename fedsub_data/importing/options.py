"""Options of an import, each declared once: for the command line, Python and the folder's record.

A column that is left out is guessed (:mod:`fedsub_data.importing.roles`); which one it was is said.
"""

import re
from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.options import choice, option, suggestion
from fedsub_data.importing.logger_options import LoggerOptions
from fedsub_data.importing.time_options import NONE as NONE
from fedsub_data.importing.time_options import seconds as seconds
from fedsub_data.importing.written_options import AUTO as AUTO

#: Groups of a pattern for files' names.
NAME_GROUPS = ("subject", "label", "recording", "sensor")
#: Units that numbers can be converted to, and what is measured in them.
_CONVERSIONS = {"g": "acceleration", "m/s^2": "acceleration", "deg": "angle", "rad": "angle"}


@dataclass(frozen=True)
class ImportOptions(LoggerOptions):
    """Options of an import; every default fits a clean file of raw signals or features."""

    subject: str = option("", "column with the person of each row; guessed if left out")
    from_name: str = option(
        "",
        "regular expression for the names of files, and with / of their folders. Its groups "
        "(?P<subject>...), label, recording and sensor say whose a file is, and so on; one group "
        "without a name is the person. Guessed if left out and needed",
    )
    label: str = option("", "column of the classes, as words or numbers; guessed if left out")
    time: str = option(
        "",
        "column of times, as numbers or dates; 'none' if rows are in order and have no times; "
        "guessed if left out",
    )
    recording: str = option(
        "", "column with the recording of each row, if a file holds several; no window spans two"
    )
    part: str = option(
        "",
        "column with the part of each row, train, validation or test, for a run's split = given; "
        "no window spans two; of tables alone",
    )
    features: str = option(
        "",
        "columns of the signals or features, with commas; if left out, all other numeric columns",
    )
    window: str = option(
        AUTO,
        "length of a window, such as 2.56s; 'none': each row is a sample; 'auto': 2.56s if there "
        "is a time column or a rate, else none",
    )
    overlap: float = option(
        0.5, "share of a window that the next window repeats", minimum=0, below=1
    )
    rate: float = option(
        0.0,
        "samples per second; other recordings are resampled to it; 0 = the median over people",
        minimum=0,
    )
    gap: str = option(
        AUTO, "pause that no window spans, such as 0.5s; 'auto': ten steps of the recording"
    )
    purity: float = option(
        0.5,
        "share of a window's rows that must have the window's label, or at a target any value; "
        "1 = all",
        above=0,
        maximum=1,
    )
    missing: str = choice(
        "drop",
        "interpolate",
        "stop",
        doc="rows with an empty cell or NaN: dropped, filled from the rows around, or refused",
    )
    not_numbers: str = choice("stop", "drop", doc="rows with text where a number is expected")
    unlabelled: str = choice(
        "drop",
        "stop",
        "keep",
        doc="rows or windows without a label: left out, refused, or kept in the folder "
        "'unlabelled' inside the new one, a federation for fedsub adapt and predict",
    )
    no_label: str = option(
        "",
        "labels that mean 'no label', with commas, such as 0,transient; empty cells always mean it",
    )
    spelling: str = choice(
        "stop",
        "merge",
        "keep",
        doc="classes whose names differ in case, blanks, hyphens or underscores only: refused, one "
        "class, or one each",
    )
    duplicates: str = choice(
        AUTO,
        "drop",
        "keep",
        "stop",
        doc="rows with the time of an earlier row, or equal to one in all columns; auto: dropped "
        "if there is a time column, else kept. Kept rows with one time are spread evenly up to the "
        "next time",
    )
    backwards: str = choice(
        "stop",
        "sort",
        "split",
        doc="times that run backwards in a file: refused, sorted, or the start of a new recording",
    )
    first_rows: str = choice(
        "stop",
        "drop",
        "keep",
        doc="a signal's first rows that are far off all later ones of their file, such as a line "
        "with the time of the start: refused, left out, or kept",
    )
    overlapping: str = choice(
        AUTO,
        "together",
        "behind",
        doc="recordings of one person whose times overlap: made at the same time, or one after the "
        "other; auto: at the same time unless each begins at 0",
    )
    mixed_units: str = choice(
        "stop",
        "keep",
        doc="people whose numbers seem to have another unit or sign than the others': refused, or "
        "kept as they are",
    )
    convert: str = option(
        "",
        "units to convert people to whose unit is not that of the others, with commas: g or "
        "m/s^2, deg or rad; as:PERSON takes the unit and sign of that person",
    )
    measured_labels: str = choice(
        "stop",
        "keep",
        doc="labels that seem to be measurements: refused, or one class each. Such are decimal "
        "numbers, and many whole numbers that do not count from 0 or 1",
    )
    fewest: int = option(2, "least number of samples; people with fewer are left out", minimum=2)
    name: str = option("", "the federation's name; if left out, the folder's")
    task: str = option("recognition", "name of the task, for the card")
    units: str = option("", "units of the features, in words; if left out, the card names none")

    def __post_init__(self) -> None:
        self.take_target()
        seconds("window", self.window)
        seconds("gap", self.gap)
        self.check_times()
        self._check_conversions()
        self._check_names()

    def _check_names(self) -> None:
        try:
            pattern = re.compile(self.from_name)
        except re.error as error:
            raise ConfigError(
                f"from-name: got {self.from_name!r}, expected a regular expression: {error}"
            ) from error
        if self.from_name and pattern.groups < 1:
            raise ConfigError(
                f"from-name: got {self.from_name!r}, expected a group in parentheses that is the "
                "person, such as 'subject(\\d+)'"
            )
        for group in pattern.groupindex:
            if group not in NAME_GROUPS:
                raise ConfigError(
                    f"from-name: got a group {group!r}, expected {', '.join(NAME_GROUPS)}."
                    f"{suggestion(group, NAME_GROUPS)}"
                )
        by_name = "from-name" if "label" in self.named_groups else ""
        self.check_intervals("label" if self.label else by_name)
        for key in self.named_groups & {"subject", "label", "recording"}:
            if column := getattr(self, key):
                raise ConfigError(
                    f"{key}: got {column!r} and from-name {self.from_name!r}, which says it, too; "
                    "expected one of them"
                )

    @property
    def named_groups(self) -> frozenset[str]:
        """Groups of ``from_name``: person, class, recording, sensor."""
        if not self.from_name:
            return frozenset()
        return frozenset(re.compile(self.from_name).groupindex) or frozenset({"subject"})

    def _check_conversions(self) -> None:
        words = self.conversions
        for word in words:
            if word not in _CONVERSIONS and not re.fullmatch("as:.+", word):
                raise ConfigError(
                    f"convert: got {word!r}, expected {', '.join(_CONVERSIONS)} or as:PERSON, with "
                    "commas"
                )
        quantities = ["as" if word[:3] == "as:" else _CONVERSIONS[word] for word in words]
        if twice := [quantity for quantity in quantities if quantities.count(quantity) > 1]:
            two = " and ".join(w for w, q in zip(words, quantities, strict=True) if q == twice[0])
            raise ConfigError(f"convert: got {two}, expected one of them")

    @property
    def conversions(self) -> tuple[str, ...]:
        """Units and people that ``convert`` names, each once."""
        words = (part.strip() for part in self.convert.split(","))
        return tuple(dict.fromkeys(word for word in words if word))

    @property
    def convert_like(self) -> str:
        """The person whose units and signs others are converted to; empty: nobody."""
        return next((word[3:] for word in self.conversions if word.startswith("as:")), "")

    @property
    def window_s(self) -> float | None:
        """Seconds of a window; None where it is left to the data, or there is none."""
        return seconds("window", self.window)

    @property
    def gap_s(self) -> float | None:
        """Seconds of a pause; None: by each recording's steps."""
        return seconds("gap", self.gap)

    @property
    def named_features(self) -> tuple[str, ...]:
        """Columns that were named as features, in their order."""
        return tuple(part.strip() for part in self.features.split(",") if part.strip())

    @property
    def no_labels(self) -> frozenset[str]:
        """Labels that mean none."""
        return frozenset(part.strip() for part in self.no_label.split(",") if part.strip())
