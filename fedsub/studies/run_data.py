"""What a run finds in its data before its first round."""

from __future__ import annotations

import numpy as np

from fedsub.engines.simulation import split_clients, unseen_people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings, without_validation
from fedsub_server.data_notes import DataNotes


def data_notes(config: RunConfig, federation: Federation) -> DataNotes:
    """Return how everybody's samples are split in a run, and what bends its results.

    Raises
    ------
    DataError
        Where somebody's cannot be split.
    """
    card = federation.card
    people = {one.client: one for one in split_clients(config.split_settings, federation)}
    splits = {name: one.note for name, one in people.items() if one.note is not None}
    tested = unseen_people(config, federation) or list(people)
    trained = {int(label) for one in people.values() for label in np.unique(one.train_y)}
    seen = {int(label) for name in tested for label in np.unique(people[name].test_y)}
    found = findings(federation, config.split)
    if config.best_by == "validation" and (lacking := without_validation(splits)):
        found.append(lacking)
    if untested := [card.classes[label] for label in sorted(trained - seen)]:
        found.append(
            f"Trained on, but tested by nobody: {', '.join(map(repr, untested))}. No score shows "
            "how well it is recognised. A class needs two samples that can be split in time."
        )
    return DataNotes(splits, tuple(found))
