"""The part of the training data on which a study chooses values: never a tested sample."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedsub.engines.simulation import unseen_people
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.client_data import PARTS
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.data.given import given_parts
from fedsub_core.errors import DataError

#: Places of samples in a client's file, int64 [n], by client.
Rows = dict[str, NDArray[np.int64]]


def tuning_run(federation: Federation, config: RunConfig) -> tuple[Federation, RunConfig]:
    """Return the federation of what everybody trains on in a run, and the run that chooses on it.

    That one tests on the validation part that a person's file names (split = given). Of others it
    tests on a part of what they train on, cut as the run cuts off what it tests: of windows that
    overlap none is then on both sides. Where so few samples are left that most people cannot be cut
    so, the part is drawn by class. Who has too few has no say in what is chosen, nor have people
    who are held out. Where people lack labels of tested classes, some lack some of those that are
    left, others than in the run: what is good for these is chosen, too.

    Raises DataError if nobody has samples enough.
    """
    seed = config.seed + 1 if config.unlabelled else config.seed
    # Who takes the best of several rounds needs them here, too.
    every = config.rounds if config.best_by == "last" else config.evaluate_every
    again = replace(config, train_share=1.0, seed=seed, evaluate_every=every)
    again = replace(again, fold="", unseen_people="", unseen_labels=0)
    rows = _training_rows(federation, config)
    if config.split == "given":
        again = replace(again, split="auto")
        if named := _named_parts(federation, rows, again):
            return Federation(federation.card, named), replace(again, split="given")
    part = {name: federation.clients[name].part(train) for name, train in rows.items()}
    as_the_run, by_class = again, replace(again, split="stratified")
    kept = _divided(part, federation.card, as_the_run)
    others = _divided(part, federation.card, by_class)
    if 2 * len(kept) < len(others):
        kept, as_the_run = others, by_class
    if not kept:
        raise DataError(
            f"{federation.card.name}: of the {len(federation.clients)} clients' training samples "
            "none can be divided into a part to train on and one to choose values on; expected "
            "two samples of a class at least. Raise train-share, or leave [tune] out."
        )
    return Federation(federation.card, kept), as_the_run


def _named_parts(federation: Federation, rows: Rows, config: RunConfig) -> dict[str, ClientData]:
    """Return people whose test part is what their files name for validation; {} where none does.

    Who names no such part is divided as `config` says; whoever cannot be has no say.
    """
    card, kept, named = federation.card, dict[str, ClientData](), False
    settings = replace(config.split_settings, best_by="last")
    for name, train in rows.items():
        data = federation.clients[name]
        held = np.flatnonzero(given_parts(data, card)[1])
        named |= len(held) > 0
        if not len(held):
            with suppress(DataError):
                cut = split_client(data.part(train), card, settings)
                held, train = train[cut.test], train[cut.train]
        if len(held):
            both = np.sort(np.concatenate([train, held]))
            parts = np.where(np.isin(both, held), PARTS.index("test"), PARTS.index("training"))
            kept[name] = replace(data.part(both), parts=parts)
    return kept if named else {}


def _divided(part: dict[str, ClientData], card: Card, config: RunConfig) -> dict[str, ClientData]:
    """Return the people whose samples can be divided as a run divides."""
    kept = {}
    for name, data in part.items():
        with suppress(DataError):
            split_client(data, card, replace(config.split_settings, best_by="last"))
            kept[name] = data
    return kept


def _training_rows(federation: Federation, config: RunConfig) -> Rows:
    """Return the rows of a run's training samples, by client; without people who are held out."""
    kept = {}
    # What a run holds back to choose the best round by is not tested either.
    settings = replace(config.split_settings, best_by="last")
    out = unseen_people(config, federation)
    for name, data in federation.clients.items():
        if name in out:
            continue
        kept[name] = split_client(data, federation.card, settings).train
    return kept
