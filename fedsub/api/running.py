"""``fedsub.run``: train methods from Python; what they reached as tables."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedsub.api.adapting import Adaptation, adapt
from fedsub.api.data import federation as as_federation
from fedsub.api.models import PersonModel
from fedsub.api.modules import is_given
from fedsub.api.predicted import Samples
from fedsub.api.settings import configured, flat_settings
from fedsub.api.shown import Report, shown_with_place
from fedsub.api.tables import Tables
from fedsub.commands.progress import progress as told
from fedsub.newcomers.finished_run import FinishedRun
from fedsub.studies.run import check_data, data_notes, train_methods
from fedsub.studies.tuned_run import tuned, tuned_folder
from fedsub_client.loaded_model import load_model
from fedsub_core.config.named_code import CODE, ENCODER, MODEL, check_option
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import WATCH
from fedsub_core.errors import FedSubError, RunError
from fedsub_core.spelling import python, spelling
from fedsub_data.importing.client_ids import nearest_person
from fedsub_server.run_folder import MODELS, RUN_FILE

if TYPE_CHECKING:
    pass


class Run(Tables, Samples):
    """A run's folder, and what its methods reached as pandas tables.

    Ids of people are text in every table. In a notebook a run shows its table and where it lies;
    ``run.report`` shows the report.
    """

    def __init__(self, folder: Path, people: Federation | None = None) -> None:
        super().__init__(folder, read_config(folder / RUN_FILE), people)

    def persons(self, method: str | None = None) -> list[str]:
        """Return the ids of people who have a model by `method`, by default the main one."""
        return sorted(path.stem for path in self._models(method).glob("*.safetensors"))

    def model(self, person: str, method: str | None = None) -> PersonModel:
        """Return a person's model, to be called on raw samples.

        Parameters
        ----------
        method : one of the run's; None: the main one.

        Raises
        ------
        RunError
            Where the run left no such model, or a model from another process's memory has to be
            given: ``fedsub.load(folder, model=module)``.
        ConfigError
            Where the folder names code that this user does not know:
            ``fedsub.load(folder, model="file.py:builder")`` names it.
        """
        path = self._models(method) / f"{person}.safetensors"
        if not path.is_file():
            there = self.persons(method)
            raise RunError(
                f"{path.parent}: got no model of {person!r}, expected one of: "
                f"{', '.join(there) or 'nobody'}.{nearest_person(str(person), there)}"
            )
        named = {option: str(getattr(self.config, option)) for option in CODE}
        folder, lay = str(self.folder), [one for one, value in named.items() if is_given(value)]
        for option, value in named.items():
            if option not in lay:
                check_option(
                    option,
                    value,
                    self.folder / RUN_FILE,
                    (),
                    lambda key, value: f"fedsub.load({folder!r}, {key}={value!r})",
                )
        try:
            return PersonModel(
                load_model(path, named[MODEL] if ":" in named[MODEL] else "", named[ENCODER])
            )
        except FedSubError as error:
            if lay:
                raise RunError(
                    f"{error}. The {lay[0]} lay in memory: fedsub.load({folder!r}, {lay[0]}=...) "
                    "takes it once more"
                ) from error
            raise

    @spelling(python)
    def adapt(self, data: Any, *args: Any, method: str | None = None, **options: Any) -> Adaptation:
        """Return models for people who come after the run: :func:`fedsub.api.adapting.adapt`.

        Nothing of the run changes. `method` is one of the run's; None: the main one.
        """
        return adapt(FinishedRun(self.folder, method), data, *args, **options)

    @property
    def report(self) -> Report:
        """The report, one page to read offline; a notebook shows it."""
        from fedsub.report.report import write_report

        return Report(write_report(self.folder)[0])

    def _models(self, method: str | None) -> Path:
        name = method or self.config.method
        if name not in self.methods:
            raise RunError(
                f"{self.folder}: got method {name!r}, expected one of {', '.join(self.methods)}"
            )
        return self.folder / name / MODELS

    def _repr_html_(self) -> str:
        shown = ["tested", "clients", "macro_f1", "macro_f1_ci95", "macro_f1_p10", "loss",
                 "twin", "worse_than_twin"]  # fmt: skip
        if self.config.regression:
            shown = ["tested", "clients", "mae", "mae_ci95", "rmse", "r2", *shown[-3:]]
        return shown_with_place(self.table[shown], self.folder)

    def __repr__(self) -> str:
        """Return where the run lies and what it trained."""
        return f"Run({str(self.folder)!r}, methods={self.methods}, rounds={self.config.rounds})"


@spelling(python)
def run(
    data: Any = WATCH,
    method: str | None = None,
    rounds: int | None = None,
    *,
    beside: Iterable[str] | str | None = None,
    model: Any = None,
    tune: Mapping[str, Any] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Train a method, and others beside it, and return what they reached.

    Parameters
    ----------
    data
        All that `fedsub.federation` takes without options: a folder, a file, a DataFrame,
        arrays; or what it returned.
    method, rounds
        As ``fedsub run --method --rounds``, with the same defaults.
    beside
        Methods trained beside it to compare; ``""`` is none.
    model
        A kind's name, a builder, its place, or a ``torch.nn.Module``, whose weights all start from.
    tune
        Values to choose among for `method`, on a part of the training samples that is held back:
        ``tune={"lr": [0.01, 0.05]}``; the methods beside it use what is chosen, too.
    progress
        Whether rounds are told: by bars on a terminal or below a notebook's cell, elsewhere by
        a line now and then.
    **settings
        Every other key of ``fedsub run``, with ``_`` for ``-``: ``lr=0.01``, ``batch_size=16``,
        ``seed=3``, ``out="runs"``; a method's own as ``ditto={"lam": 0.5}``. ``encoder`` may be a
        frozen ``torch.nn.Module``, too.

    Returns
    -------
    Run
        The folder is that of any run: ``fedsub report``, ``predict`` and ``export`` take it.

    Raises
    ------
    ConfigError, DataError, RunError
        As the command would, before the first round.
    """
    config = configured(data, method, rounds, beside, model, settings)
    people = as_federation(data)
    check_data(config, people)
    notes = data_notes(config, people)
    for text in notes.warnings if progress else ():
        print(f"Warning: {text}")
    found: dict[str, Any] = {}
    if tune:
        config, found = tuned(config, people, flat_settings(tune), lambda *done: None)
    return Run(_trained(config, people, progress, found), people)


def _trained(config: RunConfig, people: Federation, progress: bool, found: dict[str, Any]) -> Path:
    folder, shown = tuned_folder(config, found), sys.stdout if progress else io.StringIO()
    with told(Console(file=shown), "rounds", config.methods) as tell:
        train_methods(config, people, folder, lambda name, round: tell(name, round, config.rounds))
    return folder
