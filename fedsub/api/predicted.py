"""A run's single samples from Python: predictions, parts and scores as tables."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedsub.api.shown import table
from fedsub.predictions.scores import ERRORS, SCORES, Score, score_named
from fedsub.predictions.tables import prediction_rows, score_rows, split_rows
from fedsub.predictions.tested import RunSamples
from fedsub_core.config.named_code import CODE
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation

if TYPE_CHECKING:
    import pandas as pd


class Samples:
    """The samples of a run's people, where the run's data are at hand."""

    def __init__(self, folder: Path, config: RunConfig, people: Federation | None) -> None:
        self.folder, self.config, self._data = folder, config, people

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Each tested sample by each method, in the round that was tested last.

        Columns: ``person``, ``method``, ``seed``, ``fold``, ``round``, ``index`` of the row in the
        person's data, ``t`` in seconds, ``class``, ``predicted``, and ``probability NAME`` of each
        class.

        Raises
        ------
        RunError
            Where the data do not lie where the run found them, or differ:
            ``fedsub.load(folder, data=...)`` takes them.
        """
        return table(prediction_rows(self._tested, self._tested.predictions()))

    @cached_property
    def splits(self) -> pd.DataFrame:
        """Each sample's part: ``person``, ``index``, ``t``, ``class``, ``fold``, ``part``.

        A part is ``training``, ``validation``, ``test`` or ``unused``. Raises as `predictions`.
        """
        return table(split_rows(self._tested))

    def scores(self, *metrics: str | Score) -> pd.DataFrame:
        """Return scores of each person by method: ``person``, ``method``, ``tested``, then each.

        Parameters
        ----------
        metrics : ``auroc``, ``balanced_accuracy``, ``kappa``, ``ece``, ``brier``, or of a target
            ``mae``, ``rmse``, ``r2``, by default all; or functions of true classes [n] and
            probabilities [n, classes], or of values [n] and predicted ones [n, 1].
        """
        known = ERRORS if self.config.regression else SCORES
        named = [
            (m.__name__, m) if callable(m) else score_named(m, known) for m in metrics or known
        ]
        return table(score_rows(self._tested.predictions(), named))

    def confusion(self, method: str | None = None) -> pd.DataFrame:
        """Return a method's confusion matrix: tested samples, true classes as rows."""
        import pandas as pd

        of, classes = self.predictions, list(self._tested.federation.card.classes)
        of = of[of["method"] == (method or self.config.method)]
        found = pd.crosstab(of["class"], of["predicted"])
        return found.reindex(index=classes, columns=classes, fill_value=0)

    @cached_property
    def _tested(self) -> RunSamples:
        return RunSamples(self.folder, self._data, {o: str(getattr(self.config, o)) for o in CODE})
