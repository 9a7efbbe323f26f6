"""``fedsub.load``: what lies in a folder or file, as Python has it."""

from pathlib import Path
from typing import Any

from fedsub.api.adapting import NewcomersFile
from fedsub.api.comparing import Comparison, kept
from fedsub.api.data import federation
from fedsub.api.models import PersonModel
from fedsub.api.modules import given, is_given, places_in
from fedsub.api.running import Run
from fedsub.newcomers.newcomers_file import is_newcomers_file, read_newcomers
from fedsub.studies.study import STUDY_FILE
from fedsub_client.loaded_model import load_model
from fedsub_core.config.named_code import ENCODER, MODEL, note_option
from fedsub_core.errors import RunError
from fedsub_core.spelling import python, spelling
from fedsub_server.run_folder import RUN_FILE


@spelling(python)
def load(
    folder: Path | str, model: Any = None, encoder: Any = None, data: Any = None
) -> Run | Comparison | PersonModel | NewcomersFile:
    """Return the run or the comparison in a folder, or what is in a file.

    Parameters
    ----------
    folder
        A run's folder, also of the command line or a deployment's server; a study's; a model's
        file ``.safetensors``, or a device's state; what ``fedsub export --newcomers`` wrote.
    model, encoder
        The module, builder or builder's place, where one made the models or their features: files
        name code and do not hold it.
    data
        A run's, as `fedsub.run` took it, where they do not lie where the run found them: for
        `predictions` and `splits`.

    Raises
    ------
    RunError
        Where there is none of these.
    """
    where, named = Path(folder), places_in({MODEL: model, ENCODER: encoder})
    if (where / RUN_FILE).is_file():
        run = Run(where, None if data is None else federation(data))
        for option, value in ((MODEL, model), (ENCODER, encoder)):
            own = str(getattr(run.config, option))
            if value is not None and is_given(own):
                given(value, own)
            elif value is not None:
                note_option(option, named[option])
        return run
    if (where / STUDY_FILE).is_file():
        return kept(where)
    if where.is_file() and is_newcomers_file(where):
        return NewcomersFile(read_newcomers(where))
    if where.exists():
        return PersonModel(load_model(where, named.get(MODEL, ""), named.get(ENCODER, "")))
    raise RunError(f"{where}: no such folder; expected a run's, a study's, or a model's file")
