"""What is read of each row of a table, in SQL: whose it is, its class, its time, its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fedsub_data.importing.dates import date_in_sql, is_of_day
from fedsub_data.importing.parts import BETWEEN
from fedsub_data.importing.roles import Roles, is_number
from fedsub_data.importing.text_files import EMPTY, literal, name
from fedsub_data.importing.zones import NAMED

_DATES = ("TIME", "DATE")


@dataclass(frozen=True)
class Columns:
    """The columns of tables.

    Parameters
    ----------
    types : DuckDB's, by name.
    decimal : what separates a number's whole part from the rest.
    dates : what stands first in dates as text.
    factors : by which numbers of some columns are multiplied.
    """

    roles: Roles
    types: Mapping[str, str]
    decimal: str
    dates: str
    factors: Mapping[str, float] = field(default_factory=dict)

    def converted(self, factors: Mapping[str, float]) -> Columns:
        """Return the columns of a file whose numbers have other units."""
        return replace(self, factors=factors)

    def ticks(self, times: Sequence[str | None]) -> bool:
        """Return whether time, of which these are some values, is in numbers."""
        kind = self.types[str(self.roles.time)]
        if "%" in self.dates:
            return False
        if kind == "VARCHAR":  # most of them: a row of units may come first
            there = [v for v in times if v is not None]
            return 2 * sum(map(is_number, there)) >= len(there)
        return not kind.startswith(_DATES)

    def selected(self, owner: str | None, label: str | None, ticks: bool) -> str:
        """Return the columns to select of each row, in SQL.

        `owner`, `label`: of a file of one person or class; None: a column says it.
        """
        whose = self._subject() if owner is None else f"{literal(owner)}::VARCHAR"
        what = "NULL" if self.roles.label is None else name(self.roles.label)
        what = what if label is None else literal(label)
        recording = name(self.roles.recording) if self.roles.recording else "NULL"
        if self.roles.part is not None:
            both = (f"coalesce({one}::VARCHAR, '')" for one in (name(self.roles.part), recording))
            recording = f" || {literal(BETWEEN)} || ".join(both)
        time = [] if self.roles.time is None else [self._time(self.roles.time, ticks)]
        numbers = [self._number(feature) for feature in self.roles.features]
        texts = (f"{text}::VARCHAR" for text in (what, recording))
        named = [self._named(self.roles.time)] if self.roles.time and not ticks else []
        return ", ".join([whose, *texts, *time, *named, *numbers])

    def of_day(self, times: Sequence[str | None]) -> bool:
        """Return whether time, of which these are some values, is of a day, without a date."""
        kind = self.types[str(self.roles.time)]
        if kind != "VARCHAR":
            return kind.startswith("TIME") and not kind.startswith("TIMESTAMP")
        return is_of_day(times, self.dates)

    def _named(self, time: str) -> str:
        """Return whether a date names its zone, in SQL."""
        if not self._is_text(time):
            return str(self.types[time].endswith("WITH TIME ZONE"))
        if "%" in self.dates:
            return str("%z" in self.dates)
        return f"coalesce(regexp_matches({name(time)}, {literal(NAMED)}), false)"

    def _subject(self) -> str:
        """Return the column that says whose a row is as text; NULL where it is blank."""
        text = f"{name(str(self.roles.subject))}::VARCHAR"
        none = ", ".join(map(literal, EMPTY))
        return f"CASE WHEN trim({text}) IN ({none}) THEN NULL ELSE {text} END"

    def _time(self, time: str, ticks: bool) -> str:
        """Return the column of time as seconds or ticks, float64; NULL where it is none."""
        column = name(time)
        if ticks:
            text = f"replace({column}, ',', '.')" if self._comma(time) else column
            return f"TRY_CAST({text} AS DOUBLE) * {self.factors.get(time, 1.0)!r}"
        return date_in_sql(column, self.dates) if self._is_text(time) else f"epoch({column})"

    def _number(self, feature: str) -> str:
        """Return a column as float32: NULL where there is none, infinite where it is text.

        Text that spells infinity counts as text.
        """
        column = name(feature)
        text = f"replace({column}, ',', '.')" if self._comma(feature) else column
        number = f"TRY_CAST({text} AS FLOAT)"
        none = (
            f"{column} IN ({', '.join(map(literal, EMPTY))})" if self._is_text(feature) else "false"
        )
        # What is no number is looked at last, as it is rare.
        text = f"CASE WHEN {column} IS NULL OR {none} THEN NULL ELSE 'inf'::FLOAT END"
        return f"coalesce({number}, {text}) * {self.factors.get(feature, 1.0)!r}::FLOAT"

    def _comma(self, column: str) -> bool:
        return self.decimal == "," and self._is_text(column)

    def _is_text(self, column: str) -> bool:
        return self.types[column] == "VARCHAR"
