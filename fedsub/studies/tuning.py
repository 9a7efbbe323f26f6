"""The part of the training data on which a study chooses values: never a tested sample."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.data.splits import unseen_clients
from fedsub_core.errors import DataError


def training_part(federation: Federation, config: RunConfig) -> Federation:
    """Return the federation of what everybody trains on in a run, and of nothing else.

    A run on it tests on a part of that: the validation part. Who has too few samples to be divided
    once more has no say in what is chosen, nor have people who are held out.

    Raises
    ------
    DataError
        If nobody has samples enough.
    """
    again = tuning_config(config).split_settings
    kept = {}
    out: tuple[str, ...] = ()
    if config.split == "unseen":
        out = unseen_clients(federation.clients, config.unseen_share, config.seed)
    for name, data in federation.clients.items():
        if name in out:
            continue
        # Split places instead of samples, to know which are kept; float32 holds 16 million.
        places = np.arange(len(data.y), dtype=np.float32).reshape(-1, 1)
        split = split_client(replace(data, x=places), federation.card, config.split_settings)
        own = split.train_x.ravel().astype(np.int64)
        t = None if data.t is None else data.t[own]
        since = None if data.since is None else data.since[own]
        part = ClientData(name, data.x[own], data.y[own], t, since)
        with suppress(DataError):
            split_client(part, federation.card, again)
            kept[name] = part
    if not kept:
        raise DataError(
            f"{federation.card.name}: of the {len(federation.clients)} clients' training samples "
            "none can be divided into a part to train on and one to choose values on; expected "
            "two samples of a class at least. Raise train-share, or leave [tune] out."
        )
    return Federation(federation.card, kept)


def tuning_config(config: RunConfig) -> RunConfig:
    """Return the configuration of a run on the training part.

    Of a share of the training part, cut once more, little is left: it is drawn by class, as the
    samples that are left are far apart. Where people lack labels of tested classes, some lack some
    of those that are left, others than in the run: what is good for these is chosen, too.
    """
    split = "stratified" if config.train_share < 1 else config.split
    seed = config.seed + 1 if config.unlabelled else config.seed
    every = config.rounds
    return replace(config, split=split, train_share=1.0, seed=seed, evaluate_every=every)
