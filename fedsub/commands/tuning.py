"""``--tune``: values of a run that are chosen on validation data before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsub.commands.progress import progress
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from fedsub_core.data.federation import Federation

TUNE = click.option(
    "--tune",
    multiple=True,
    metavar="KEY=VALUE,VALUE",
    help="values of a key to choose among for the method, such as lr=0.01,0.1, on a part of the "
    "training samples, never on test samples",
)


def chosen_values(
    console: Console,
    config: RunConfig,
    federation: Federation,
    texts: Sequence[str],
    resume: Path | None,
) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration with values chosen among those of ``--tune``, and what was tried."""
    from fedsub.studies.kept_study import grid_of
    from fedsub.studies.tuned_run import tuned

    if not texts:
        return config, {}
    if resume is not None:
        raise ConfigError("--tune: got it with --resume, whose values were chosen at its start")
    with progress(console, "rounds", ["tuning"]) as tell:
        each = config.rounds
        return tuned(
            config,
            federation,
            grid_of(texts),
            lambda i, of, round: tell("tuning", i * each + round, of * each),
        )
