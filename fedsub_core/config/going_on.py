"""How a run begins with another's models, and standardises anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedsub_core.errors import ConfigError
from fedsub_core.options import option

if TYPE_CHECKING:
    from fedsub_core.config.run_config import RunConfig


@dataclass(frozen=True)
class GoingOnSettings:
    """What is taken over of an earlier run, and what is renewed in this one."""

    from_run: str = option(
        "",
        "folder of a run with whose models this one begins: the common model, and people's own "
        "states, by client id; if left out, with new models",
    )
    standardise_anew: int = option(
        0,
        "round before which what everybody's samples are standardised by is computed anew, from "
        "all who are there; what was made of samples before is dropped; 0: never",
        minimum=0,
    )


def check_going_on(config: RunConfig, where: str) -> None:
    """Refuse to standardise anew where nothing is standardised by everybody's samples.

    And to begin with another run's models where people are tested whom no model may know.
    """
    if config.from_run and config.split == "unseen":
        raise ConfigError(
            f"{where}: from-run = {config.from_run}: got split = unseen, whose people may have "
            "trained that run's models, expected another split"
        )
    got = ""
    if not config.standardise.startswith("federation"):
        got = f"standardise = {config.standardise}, expected federation or federation-median"
    elif config.secure_aggregation:
        got = "secure-aggregation, expected none: a second sum of everybody's samples would tell "
        got += "of those who are in one of both alone. Begin another run with from-run"
    if config.standardise_anew and got:
        raise ConfigError(f"{where}: standardise-anew = {config.standardise_anew}: got {got}")
