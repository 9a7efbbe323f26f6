"""Newcomers from Python: models for people who come after a run's last round."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub.api.data import federation
from fedsub.api.models import PersonModel
from fedsub.api.shown import table
from fedsub.newcomers.adapting import ADD, REPLACE, Adapted, adapted
from fedsub.newcomers.finished_run import ForNewcomers, Source
from fedsub.newcomers.people import Labels, NewPeople, read_people
from fedsub.newcomers.results import row_of, save_models
from fedsub_core.data.card import CARD_FILE
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.metrics import ClientMetrics
from fedsub_core.target_errors import TargetErrors

if TYPE_CHECKING:
    import pandas as pd


class Adaptation:
    """Newcomers' models, and what each reaches.

    ``adaptation.table`` has a row for each person, ``adaptation.model("anna")`` is a function of
    raw samples.
    """

    def __init__(self, found: Sequence[Adapted]) -> None:
        self._found = {one.person: one for one in found}

    @property
    def persons(self) -> list[str]:
        """The ids of people who have a model."""
        return sorted(self._found)

    @property
    def table(self) -> pd.DataFrame:
        """What each reaches, by person: numbers as ``fedsub adapt --json`` has them.

        ``known`` says whether the run knows the person, ``labelled`` and ``tested`` count windows,
        ``own_macro_f1`` is of a head of the person's own labels alone. Of a target the scores are
        ``mae``, ``rmse`` and ``r2``.
        """
        return table((row_of(one) for one in self._found.values()), "person")

    @property
    def scores(self) -> dict[str, ClientMetrics | TargetErrors]:
        """All scores of each person of whom something was tested."""
        tested = {name: one.scores for name, one in self._found.items()}
        return {name: scores for name, scores in tested.items() if scores is not None}

    def model(self, person: str) -> PersonModel:
        """Return a person's model, to be called on raw samples; RunError if there is none."""
        if person not in self._found:
            raise RunError(
                f"got no model of {person!r}, expected one of: {', '.join(self.persons)}"
            )
        return PersonModel(self._found[person].model)

    def save(self, folder: Path | str) -> list[Path]:
        """Write ``<person>.safetensors`` of each into a new folder; return the paths."""
        return save_models(Path(folder), list(self._found.values()))

    def __repr__(self) -> str:
        """Return whose models there are."""
        return f"Adaptation(persons={self.persons})"


def adapt(
    source: Source,
    data: Any,
    people: Collection[str] = (),
    *,
    samples_per_class: int | None = None,
    test_share: float | None = None,
    known: str = ADD,
) -> Adaptation:
    """Solve a model for each person, of the run's sums and the person's labels.

    Parameters
    ----------
    data
        All that :func:`fedsub.federation` takes without options, or what it returned. Files of
        a federation's folder need no labels.
    people
        Only these; () is all.
    samples_per_class
        How many labels of each class are learnt from, drawn at random from the training part;
        for a target, how many in all. None: all, 0: everybody's model.
    test_share
        Of each class's samples, what is tested; 0: all labels are learnt. None: the run's.
    known
        Of a person of the run: ``add`` the samples to its own in the sums, or ``replace`` them.

    Raises
    ------
    ConfigError, DataError, RunError
        As the command would, ``fedsub adapt``.
    """
    if known not in (ADD, REPLACE):
        raise ConfigError(f"known: got {known!r}, expected {ADD!r} or {REPLACE!r}")
    if samples_per_class is not None and samples_per_class < 0:
        raise ConfigError(f"samples_per_class: got {samples_per_class}, expected 0 or more")
    if test_share is not None and not 0 <= test_share < 1:
        raise ConfigError(f"test_share: got {test_share}, expected 0 or more, and below 1")
    folder = isinstance(data, str | Path) and Path(data, CARD_FILE).is_file()
    new = read_people(str(data)) if folder else NewPeople.of(federation(data))
    labels = Labels(samples_per_class, test_share)
    return Adaptation(list(adapted(source, new.those(people), labels, known)))


class NewcomersFile:
    """What newcomers get of a run, in the file that ``fedsub export --newcomers`` wrote."""

    def __init__(self, given: ForNewcomers) -> None:
        self._given = given

    def adapt(self, data: Any, *args: Any, **options: Any) -> Adaptation:
        """Return newcomers' models: :func:`adapt`."""
        return adapt(self._given, data, *args, **options)

    def __repr__(self) -> str:
        """Return whose sums they are, and what newcomers' classes are."""
        given = self._given
        return f"NewcomersFile(people={given.people}, classes={given.classes})"
