"""Files of tables, as DuckDB reads them: each one's form, columns, first rows, and places in it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.database import Database
from fedsub_data.importing.dates import day_and_month_in_sql, order_of
from fedsub_data.importing.encodings import tabs_for_blanks
from fedsub_data.importing.files import TEXT, Unchanged, kind_of
from fedsub_data.importing.layout import SensorLayout
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.roles import Roles
from fedsub_data.importing.text_files import EMPTY, Dialect, dialect, line_of, literal, name
from fedsub_data.importing.unit_rows import unit_factors

#: Rows by which it is found what a column is.
_SAMPLED = 1000


class TableFiles:
    """The files of a table, CSV or Parquet.

    Parameters
    ----------
    database : what reads them.
    layout : that names the columns, and hides those that it does not know.
    """

    def __init__(
        self,
        files: Sequence[Path],
        options: ImportOptions,
        database: Database,
        layout: SensorLayout | None = None,
    ) -> None:
        self.files, self._options, self._db = list(files), options, database
        self._layout, self._converted = layout, ""
        self._text = kind_of(files) == TEXT
        #: What is read in place of a file.
        self._read = dict[int, Path]()
        self.unchanged = Unchanged(files)
        #: Forms of the text files that were looked at, by their place.
        self.forms: dict[int, Dialect] = {}

    def types(self, file: int) -> dict[str, str]:
        """Return DuckDB's types of a file's columns, by name."""
        sql = f"DESCRIBE SELECT * FROM {self.relation(file)}"
        types = {str(row[0]): str(row[1]) for row in self._db.run(sql, file).fetchall()}
        if self._layout is None:
            return types
        options, known = self._options, self._layout.is_known
        asked = {options.subject, options.label, options.recording, options.time}
        asked |= {*options.named_features}
        return {name: kind for name, kind in types.items() if name in asked or known(name)}

    def sample(self, file: int) -> dict[str, list[str | None]]:
        """Return the first rows' texts by column; None is no value."""
        types = self.types(file)
        texts = ", ".join(f"{name(column)}::VARCHAR" for column in types)
        first = f"SELECT {texts} FROM {self.relation(file)}"
        first += f" LIMIT {_SAMPLED} OFFSET {self._options.skip}"
        sample = self._db.run(first, file).fetchall()
        return {column: [row[i] for row in sample] for i, column in enumerate(types)}

    def relation(self, file: int, empty: Sequence[str] = EMPTY) -> str:
        """Return the file as SQL has it; all columns of text are text, `empty` ones NULL."""
        path = str(self.files[file])
        if set(path) & set("*?["):
            raise DataError(f"{path}: got * ? or [ in a file's name, expected none. Rename it")
        if not self._text:
            return f"read_parquet({literal(path)})"
        relation = self.form(file).relation(self._options.bad_lines, empty)
        return relation.replace("?", literal(str(self._read.get(file, path))), 1)

    def form(self, file: int) -> Dialect:
        """Return how a file of text is written."""
        if file not in self.forms:
            target = self._db.folder / f"{file}.tsv"
            if tabs_for_blanks(self.files[file], target, self._options):
                self._read[file] = target
                options = replace(self._options, delimiter="\t", encoding="utf-8")
            else:
                options = self._options
            path = self._read.get(file, self.files[file])
            form = self._db.asked(lambda: dialect(self._db.connection, path, options), file)
            if self._layout is not None:
                form = replace(form, columns=self._layout.renamed(form.columns))
            self.forms[file] = form
        return self.forms[file]

    def units(self, file: int) -> dict[str, str]:
        """Return the units of a file's columns, by name: those that a row of units names."""
        form = self.forms.get(file)
        known = zip(form.columns, form.units, strict=True) if form and form.units else ()
        return {column: unit for column, unit in known if unit}

    def factors(self, file: int, names: Sequence[str]) -> dict[str, float]:
        """Return the factors of columns whose units differ from those of the first file.

        Raises DataError where no factor is known.
        """
        own, first = self.units(file), self.units(0)
        found = unit_factors(own, first, names, str(self.files[file]), str(self.files[0]))
        if found and not self._converted:
            self._converted = f"{self.files[file]} from {own[next(iter(found))]}"
        return found

    def date_form(self, roles: Roles) -> tuple[str, list[str]]:
        """Return the form of times as text, and sentences on the guess by all rows.

        Raises DataError where dates can be read in two ways.
        """
        if self._options.date_form != AUTO:
            return self._options.date_form, []
        time, first, second, shown = str(roles.time), 0, 0, ""
        for i, path in enumerate(self.files):
            roles.check_columns(self.types(i), str(path), str(self.files[0]))
            sql = f"SELECT {day_and_month_in_sql(name(time))} FROM {self.relation(i)}"
            row = self._db.run(sql, i).fetchone()
            first, second = max(first, row[0] or 0), max(second, row[1] or 0)
            shown = shown or row[2] or ""
        form, note = order_of(first, second, shown, f"{self.files[0]}, column {time!r}")
        return form, [note] if note else []

    def rejected(self, file: int) -> set[int]:
        """Return the numbers of lines of a file that were dropped."""
        if self._options.bad_lines != "drop":
            return set()
        lines = self._db.run(
            "SELECT DISTINCT line FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
            f"WHERE file_path = {literal(str(self._read.get(file, self.files[file])))}"
        ).fetchall()
        return {int(line) for (line,) in lines}

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value, and the value, in words; the file is read once more."""
        path, row = self.files[file], row + self._options.skip
        where = f"{path}, row {row + 1}"
        if self._text:
            read = self._read.get(file, path)
            where = f"{path}, line {line_of(read, self.forms[file], row, self.rejected(file))}"
        if column is None:
            return where
        value = self._db.run(
            f"SELECT {name(column)}::VARCHAR FROM {self.relation(file)} LIMIT 1 OFFSET {row}", file
        ).fetchone()
        self.unchanged.check()
        got = "nothing" if value is None or value[0] is None else repr(cut(value[0]))
        comma = isinstance(value, tuple) and re.fullmatch(r"[+-]?\d*,\d+", str(value[0]).strip())
        add = f", a decimal comma: add {spelt('decimal', ',')}"
        hint = add if comma and self._options.decimal != "," else ""
        return f"{where}, column {column!r}: got {got}{hint}"

    def notes(self) -> list[str]:
        """Return sentences on what stands in files of text beside the table."""
        notes = []
        first = {i: form for i, form in self.forms.items() if form.skipped and form.above}
        if first:
            at, form = next(iter(first.items()))
            more = f" and {len(first) - 1} files more" if len(first) > 1 else ""
            notes.append(
                f"Skipped: {form.above} lines before the table in {self.files[at]}{more}, the "
                f"first: {cut(form.first)!r}. To change this: {spelt('skip-lines')}."
            )
        if of_units := [i for i, form in self.forms.items() if form.units]:
            named = ", ".join(f"{name} {unit}" for name, unit in self.units(of_units[0]).items())
            more = f" and {len(of_units) - 1} files more" if len(of_units) > 1 else ""
            also = f"; others are converted to them, as {self._converted}" * bool(self._converted)
            notes.append(
                f"Left out: the row of units in {self.files[of_units[0]]}{more}: {named}{also}."
            )
        bare = [
            self.files[i] for i, form in self.forms.items() if not form.header and not form.units
        ]
        if bare and not self._options.column_names:
            notes.append(
                f"There are no names of columns in {bare[0]}: they are called "
                f"{', '.join(self.form(self.files.index(bare[0])).columns[:3])} and so on. Name "
                f"them with {spelt('column-names', 'A,B,C')}."
            )
        if self._read and self._options.delimiter != " ":
            notes.append(
                f"Columns are separated by blanks in {self.files[next(iter(self._read))]}. To "
                f"change this: {spelt('delimiter')}."
            )
        if marked := [str(self.files[i]) for i, form in self.forms.items() if form.marked]:
            more = f" and {len(marked) - 1} more" if len(marked) > 1 else ""
            form = next(form for form in self.forms.values() if form.marked)
            notes.append(
                f"Skipped: a byte-order mark at the start of {marked[0]}{more}, read as "
                f"{form.encoding}. To change this: {spelt('encoding')}."
            )
        return notes
