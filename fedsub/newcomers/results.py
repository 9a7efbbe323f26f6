"""What newcomers' models reach, as rows; and the models as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsub.newcomers.adapting import Adapted
from fedsub.newcomers.finished_run import FinishedRun, Source
from fedsub.newcomers.newcomers_file import read_newcomers
from fedsub_client.model_file import model_bytes
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import PRIVATE_FOLDER, check_new_folder, whole_folder
from fedsub_core.metric_names import OWN_HEADS


def source_of(where: Path, method: str | None = None) -> Source:
    """Return a finished run's folder, or a file for newcomers, as what newcomers get.

    Raises RunError or ConfigError; as :class:`~fedsub.newcomers.finished_run.FinishedRun` and
    :func:`~fedsub.newcomers.newcomers_file.read_newcomers`; if a method of a file is named.
    """
    if where.is_dir():
        return FinishedRun(where, method)
    if not where.is_file():
        raise RunError(f"{where}: got nothing there, expected a run's folder or a newcomers' file")
    given = read_newcomers(where)
    if method is not None and method != given.flat["method"]:
        raise ConfigError(
            f"{where}: got method {method!r}, expected {given.flat['method']!r}, the file's"
        )
    return given


def row_of(one: Adapted) -> dict[str, Any]:
    """Return the scores of a person's model, by column; None where nothing was tested.

    ``own_macro_f1`` is of a head of these labels alone. Of a target there are ``mae``, ``rmse`` and
    ``r2`` in their place.
    """
    numbers = {} if one.scores is None else one.scores.numbers
    columns = {"macro_f1": "macro_f1", "loss": "loss", "own_macro_f1": OWN_HEADS[0]}
    if one.model.card.target is not None:
        columns = {name: name for name in ("mae", "rmse", "r2", "loss")}
    return {
        "person": one.person,
        "known": one.known,
        "labelled": sum(one.labelled.values()),
        "tested": one.tested,
        **{column: numbers.get(name) for column, name in columns.items()},
    }


def save_models(folder: Path, found: Sequence[Adapted]) -> list[Path]:
    """Write each person's model to ``<folder>/<person>.safetensors``, all of them or none.

    Raises RunError if the folder already holds something, or cannot be written.
    """
    check_new_folder(folder, RunError)
    with whole_folder(folder, RunError) as draft:
        draft.chmod(PRIVATE_FOLDER)
        for one in found:
            (draft / f"{one.person}.safetensors").write_bytes(model_bytes(one.model))
    return [folder / f"{one.person}.safetensors" for one in found]
