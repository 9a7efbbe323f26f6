"""What a run's methods reached, as pandas tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub.api.shown import table
from fedsub_core.config.run_config import RunConfig
from fedsub_server.results import method_summaries
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

if TYPE_CHECKING:
    import pandas as pd

#: Numbers of a person in :attr:`Run.people`.
_OF_PEOPLE = ("macro_f1", "weighted_f1", "accuracy", "mae", "rmse", "r2", "loss", "examples")


class Tables:
    """The numbers in a run's folder; ids of people are text."""

    folder: Path
    config: RunConfig

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of the run, the main one first."""
        return self.config.methods

    @cached_property
    def table(self) -> pd.DataFrame:
        """What each method reached: a row by method, a column for each number.

        ``summary.json`` in the run's folder says what each number averages over.
        """
        rows = [asdict(one) for one in method_summaries(self.folder)]
        for row in rows:
            del row["by_capacity"]  # a table of its own
        return table(rows, "method")

    @cached_property
    def people(self) -> pd.DataFrame:
        """What each method reached of each person in its last evaluated round.

        Columns: ``person``, ``method``, then a column for each metric of a whole person, such as
        ``macro_f1``.
        """
        rows: list[dict[str, Any]] = []
        for summary in method_summaries(self.folder):
            by: dict[str, dict[str, Any]] = {}
            for one in self._metrics(summary.method):
                person, metric = one["person"], one["metric"]
                last = one["round"] == summary.evaluated_round
                if last and person and one["class"] == "" and metric in _OF_PEOPLE:
                    first = {"person": person, "method": summary.method}
                    by.setdefault(person, first)[metric] = one["value"]
            rows += by.values()
        return table(rows)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """All numbers: ``method``, ``round``, ``person``, ``class``, ``metric``, ``value``.

        The person is empty for a number of the whole run, the class for one of a whole person.
        """
        return table(
            {"method": name, **one} for name in self.methods for one in self._metrics(name)
        )

    def _metrics(self, method: str) -> Iterable[dict[str, Any]]:
        with RunDatabase(self.folder / method / DATABASE_FILE) as database:
            classes = dict(enumerate(database.classes()))
            for row in database.metrics():
                label = "" if row.label is None else classes.get(row.label, str(row.label))
                yield {
                    "round": row.round,
                    "person": row.client or "",
                    "class": label,
                    "metric": row.metric,
                    "value": row.value,
                }

    def curves(self, metric: str | None = None) -> pd.DataFrame:
        """Return a metric's mean over people by round: a row a round, a column a method.

        By default macro F1, and the mean absolute error of a target.

        Rounds that were not tested have no row. ``run.curves().plot()`` draws it.
        """
        metric = metric or ("mae" if self.config.regression else "macro_f1")
        of = self.metrics.query("metric == @metric and person != '' and `class` == ''")
        return of.pivot_table(index="round", columns="method", values="value", sort=False)
