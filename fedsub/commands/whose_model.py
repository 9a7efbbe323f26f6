"""Where a person's model lies: in a run's folder, as simulations and rehearsals leave it."""

from dataclasses import dataclass
from pathlib import Path

import click

from fedsub.commands.declared import with_options
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.toml import read_toml
from fedsub_core.errors import ConfigError, RunError
from fedsub_data.importing.client_ids import nearest_person

#: The devices' states, in the folder of a rehearsed deployment.
STATES = "state"


@dataclass(frozen=True)
class ModelAsked:
    """A person's model that is asked for: a client's of a run, or where it lies."""

    client: str | None
    run: Path | None
    method: str | None
    state: Path | None
    model: str
    encoder: str

    @property
    def named(self) -> dict[str, str]:
        """What names code, as it is given, by option."""
        return {"model": self.model, "encoder": self.encoder}

    def place(self) -> Path:
        """Return where the model lies that the options mean; say it where it was looked for."""
        more = self.run is not None or self.method is not None
        if (self.client is None) == (self.state is None) or (self.state is not None and more):
            got = "--state with --client, --run or --method" if self.state else "no --client"
            raise ConfigError(
                f"got {got}, expected "
                "--client ID (from --run FOLDER, or from the newest run) or --state PATH"
            )
        if self.client is None:
            assert self.state is not None
            return self.state
        found = find_model(self.client, self.run, self.method)
        click.echo(f"Model: {found}", err=True)
        return found


#: Adds the options that say whose model is used.
whose_model = with_options(
    "whose",
    ModelAsked,
    click.option(
        "--client", metavar="ID", help="the person whose model to use, from a run on this machine"
    ),
    click.option(
        "--run",
        type=click.Path(path_type=Path),
        help="that run's folder [default: the newest in runs/ with saved models]",
    ),
    click.option(
        "--method", metavar="NAME", help="which of that run's methods [default: its --method]"
    ),
    click.option(
        "--state",
        type=click.Path(path_type=Path),
        help="instead of --client and --run: a device's state (<state-dir>/<client-id>, or "
        "<state-dir> with a single client) or a model's file "
        "(<run>/<method>/models/<client>.safetensors)",
    ),
    click.option(
        "--model",
        metavar="PLACE",
        default="",
        help="package.module:builder or file.py:builder, if one made the model: a model's file "
        "names its code, but does not contain it",
    ),
    click.option(
        "--encoder",
        metavar="NAME",
        default="",
        help="file.py:builder or file.py:builder@weights.safetensors, if such a module is the "
        "model's encoder: its file has to be the run's",
    ),
)


def find_model(client: str, folder: Path | None = None, method: str | None = None) -> Path:
    """Return the file or the device's state that holds a client's model.

    Parameters
    ----------
    client : the client's id.
    folder : a run's; None is the newest below ``runs`` that left models.
    method : whose model; None is the one that the run is of.

    Raises RunError where there is no such run, it has no such method, or it left no model of that
    client.
    """
    from fedsub_server.run_folder import MODELS, RUN_FILE

    if folder is None:
        folder = _newest(Path(RunConfig().out), MODELS)
    if (folder / STATES).is_dir():
        if method is not None:
            raise RunError(
                f"{folder}: got method {method!r} of a deployment, expected none: its devices keep "
                "one model"
            )
        models, found = folder / STATES, folder / STATES / client
    elif (folder / RUN_FILE).is_file():
        method = method or str(read_toml(folder / RUN_FILE).get("method", RunConfig().method))
        left = sorted(path.parent.name for path in folder.glob(f"*/{MODELS}"))
        if left and method not in left:
            raise RunError(
                f"{folder}: got method {method!r}, expected one that left models: {', '.join(left)}"
            )
        models = folder / method / MODELS
        found = models / f"{client}.safetensors"
    else:
        raise RunError(f"{folder}: got no {RUN_FILE}, expected a run's folder. Check --run")
    if not found.exists():
        there = sorted(path.stem for path in models.glob("*"))
        raise RunError(
            f"{models}: got no model of client {client!r}, expected one of: "
            f"{', '.join(there) or 'nobody'}.{nearest_person(client, there)} Models are "
            "written at the end of a run"
        )
    return found


def run_of(model: Path) -> Path:
    """Return the run's folder that a model belongs to which :func:`find_model` found."""
    if model.is_dir():  # a device's state, in the folder of a rehearsed deployment
        return model.parents[1] / "run"
    return model.parents[2]


def _newest(runs: Path, models: str) -> Path:
    left = {path: path.parents[1] for path in runs.glob(f"*/*/{models}")}
    left |= {path: path.parent for path in runs.glob(f"*/{STATES}")}
    if not left:
        raise RunError(
            f"{runs.resolve()}: got no run with saved models. Run `fedsub run` here, or give the "
            "model's place with --run or --state"
        )
    return left[max(left, key=lambda path: path.stat().st_mtime_ns)]
