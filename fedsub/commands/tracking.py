"""The options of commands by which a run's numbers go to TensorBoard and MLflow."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedsub.commands.declared import with_options
from fedsub_core.extras import require

if TYPE_CHECKING:
    from fedsub.trackers.following import Trackers


@dataclass(frozen=True)
class TrackersAsked:
    """Trackers that are asked for."""

    tensorboard: bool
    mlflow: str | None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return bool(self.tensorboard or self.mlflow)

    @property
    def options(self) -> list[str]:
        """The options that ask for them."""
        place = [] if self.mlflow is None else ["--mlflow", self.mlflow]
        return [*(["--tensorboard"] if self.tensorboard else []), *place]

    def check(self) -> None:
        """Raise a ConfigError where what an option takes is not installed."""
        for asked, name in ((self.tensorboard, "tensorboard"), (self.mlflow, "mlflow")):
            if asked:
                require(f"--{name}", name)

    def following(self, folder: Path) -> AbstractContextManager[Trackers]:
        """Yield the trackers of a run's folder."""
        from fedsub.trackers.following import trackers

        return trackers(folder, self.tensorboard, self.mlflow)


#: Adds ``--tensorboard`` and ``--mlflow URI``.
tracking = with_options(
    "trackers",
    TrackersAsked,
    click.option(
        "--tensorboard",
        is_flag=True,
        help="write TensorBoard's event files into the run's folder, under tensorboard/ "
        "(needs: pip install 'fedsub[tensorboard]')",
    ),
    click.option(
        "--mlflow",
        metavar="URI",
        help="log each method as a run in MLflow, at an address such as sqlite:///mlflow.db or "
        "http://host:5000. The experiment is named after the folder, or MLFLOW_EXPERIMENT_NAME "
        "(needs: pip install 'fedsub[mlflow]')",
    ),
)
