"""The folder of a service: made new, and read."""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsub.deploy.flower_app import write_app
from fedsub.service.schedule import Schedule
from fedsub.service.state import APP, RUN, ServiceFile, Settings
from fedsub_core.config.run_config import RunConfig, from_flat, to_flat
from fedsub_core.config.toml import flatten
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import whole_folder
from fedsub_server.resuming import why_rounds_stay
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb_glance import glance

#: Seconds after which a run ends for which too few devices came; the service tries it again.
JOIN_SECONDS = 600.0


def make_service(folder: Path, config: RunConfig, settings: Settings) -> None:
    """Make a new service's folder, whole or not at all.

    Raises ConfigError if the schedule is none, the number of rounds decides what the method does in
    one, or the run would end by itself. Raises RunError if the folder is there already, or cannot
    be made.
    """
    Schedule.parse(settings.when)
    if why := why_rounds_stay(config):
        raise ConfigError(
            f"method: got {', '.join(config.methods)}, expected one whose rounds do not depend on "
            f"how many there will be, as a service has no last one: {why}"
        )
    flat = to_flat(config)
    if early := next((key for key in ("patience", "on-round") if flat[key]), ""):
        raise ConfigError(
            f"{early}: got {flat[early]!r}, expected none: it ends a run, and a service has "
            "no last round"
        )
    run = str(folder.resolve() / RUN)
    waits = config.join_timeout or JOIN_SECONDS
    config = replace(config, folder=run, out=run, join_timeout=waits)
    with whole_folder(folder, RunError) as draft:
        write_app(draft / APP, config)
        (draft / RUN).mkdir()  # for its list of members
        ServiceFile.make(draft, settings).close()


def read_app(folder: Path, keys: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of a service's runs, with keys that were set since."""
    path = folder / APP / "pyproject.toml"
    try:
        app = tomllib.loads(path.read_text(encoding="utf-8"))
        table = app["tool"]["flwr"]["app"]["config"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: got {error}, expected the app of a service") from error
    return from_flat({**dict(flatten(table)), **keys})


def finished_rounds(folder: Path, config: RunConfig) -> int:
    """Return the rounds that all methods of the run in `folder` have finished."""
    paths = [folder / name / DATABASE_FILE for name in config.methods]
    return min(glance(path).round if path.is_file() else 0 for path in paths)
