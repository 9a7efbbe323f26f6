"""How a run begins with another's models, and standardises anew."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.options import option


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
