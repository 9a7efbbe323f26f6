"""How people's samples were split, as it is said below the tables of a run."""

from __future__ import annotations

from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.splits import split_kind


def split_words(config: RunConfig, federation: Federation) -> str:
    """Return in a line how samples were split, and what a split at random may hide."""
    people = federation.clients.values()
    kinds = [split_kind(config.split, client, federation.card) for client in people]
    drawn = kinds.count("stratified")
    if not drawn:
        return "Split: cut in time, for everybody."
    who = "everybody" if drawn == len(kinds) else f"{drawn} of {len(kinds)} people"
    return (
        f"Split: at random within each class, for {who}. If samples were recorded one after "
        "another, like ones stand on both sides, and all scores are too high. Then set "
        "time_ordered = true in federation.toml, or split = blocked."
    )
