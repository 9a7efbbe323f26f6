"""A command with many options says in its help which belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

#: The section of options that no other names.
REST = "Other options"


class Sectioned(click.Command):
    """A command whose help lists options in sections: titles, and the keys of options."""

    sections: Mapping[str, Sequence[str]]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each section under its title, what no section names at the end."""
        records = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                records[parameter.opts[-1].removeprefix("--")] = record
        for title, keys in self.sections.items():
            self._write(title, [records.pop(key) for key in keys], formatter)
        self._write(REST, list(records.values()), formatter)

    def _write(
        self, title: str, rows: Sequence[tuple[str, str]], formatter: click.HelpFormatter
    ) -> None:
        with formatter.section(title):
            formatter.write_dl(rows)
