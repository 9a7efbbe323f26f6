"""The options of commands by which a run's numbers go to TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_TENSORBOARD = click.option(
    "--tensorboard",
    is_flag=True,
    help="write TensorBoard's event files into the run's folder, under tensorboard/ "
    "(needs: pip install 'fedsub[tensorboard]')",
)
_MLFLOW = click.option(
    "--mlflow",
    metavar="URI",
    help="log each method as a run in MLflow, at an address such as sqlite:///mlflow.db or "
    "http://host:5000. The experiment is named after the folder, or MLFLOW_EXPERIMENT_NAME (needs: "
    "pip install 'fedsub[mlflow]')",
)


def tracking(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--tensorboard`` and ``--mlflow URI``."""
    return _TENSORBOARD(_MLFLOW(command))


def check_tracking(tensorboard: bool, mlflow: str | None) -> None:
    """Raise a ConfigError where what an option takes is not installed."""
    from fedsub.trackers.mlflow import check_mlflow
    from fedsub.trackers.tensorboard import check_tensorboard

    if tensorboard:
        check_tensorboard()
    if mlflow:
        check_mlflow()
