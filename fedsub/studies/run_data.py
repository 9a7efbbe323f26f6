"""What a run finds in its data before its first round."""

from __future__ import annotations

import numpy as np

from fedsub.engines.simulation import split_clients, unseen_people
from fedsub_core.config.idle import named_idle
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings, without_validation
from fedsub_core.data.samples import kept_shape
from fedsub_core.models.names import installed, is_place
from fedsub_core.models.record import ModelRecord
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
    found += [*named_idle(config), *endings(config, federation)]
    return DataNotes(splits, tuple(found))


def endings(config: RunConfig, federation: Federation) -> list[str]:
    """Return in sentences what a user's own model ends with that training suffers from."""
    if not (is_place(config.model) or config.model in installed()):
        return []  # of ours none does
    card = federation.card
    x = next(iter(federation.clients.values())).x
    shape = kept_shape(x, card.vocabulary, card.padding, card.sample)
    found = {}
    for name in config.methods:
        settings = config.device_settings(name)
        record = ModelRecord.of(settings, config.seed, shape, len(card.classes))
        if record.ending:
            found[record.ending] = f"model {record.kind}: {record.ending}."
    return list(found.values())
