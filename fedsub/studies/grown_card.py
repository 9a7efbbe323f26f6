"""Going on with a run whose card gained classes, and whose people may have samples of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub.engines.simulation import open_database, split_clients
from fedsub_client.split_client import SplitClient
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.fingerprint import CARD_KEY, card_digest, fingerprints
from fedsub_core.errors import RunError
from fedsub_server.beginning import check_card
from fedsub_server.ending import ENDED_FILE
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase


def go_on_with_data(folder: Path, config: RunConfig, federation: Federation) -> None:
    """Check that a run's data are what they were, but for classes that its card gained.

    These stand behind all others, and new samples of anybody are of them alone. From then on
    the run knows its data as they are now.

    Raises RunError if the card or samples are others, if somebody is missing or new, or if no
    round is left to learn the classes in. Raises ConfigError if a method cannot gain classes.
    Nothing is changed before.
    """
    grown = []
    for name in config.methods:
        path = folder / name / DATABASE_FILE
        if not path.is_file():
            continue
        with RunDatabase(path) as database:
            had, finished = database.classes(), database.last_round()
            known = json.loads(database.meta()["config"]).get(CARD_KEY)
        classes = federation.card.classes
        if not had or classes == had:
            open_database(config, name, federation, folder / name).close()
            continue
        check_card(config, name, had)
        before = _as_it_was(federation, len(had))
        noted = known == card_digest(federation.card)  # by a process that was killed then
        open_database(config, name, federation if noted else before, folder / name).close()
        if finished >= config.rounds or (path.parent / ENDED_FILE).exists():
            raise RunError(
                f"{folder}: {name}: rounds: got {config.rounds}, of which it finished {finished}, "
                f"expected more: its card gained {', '.join(map(repr, classes[len(had) :]))}. "
                "Give more rounds, or restore the card"
            )
        _check_parts(folder, config, before, federation)
        grown.append(path)
    for path in grown:
        with RunDatabase(path) as database:
            database.note_data(fingerprints(federation))


def _as_it_was(federation: Federation, had: int) -> Federation:
    """Return the federation with its first classes alone, and the samples of these."""
    card = replace(federation.card, classes=federation.card.classes[:had])
    return Federation(card, {c: own.part(_of(own.y, had)) for c, own in federation.clients.items()})


def _of(y: NDArray[np.int64], had: int) -> NDArray[np.int64]:
    return np.flatnonzero(y < had)


def _check_parts(folder: Path, config: RunConfig, before: Federation, now: Federation) -> None:
    """Refuse (RunError) new samples with which old ones, or validation parts, change sides."""
    had, settings = len(before.card.classes), config.split_settings
    more = [c for c, own in now.clients.items() if len(own.y) > len(before.clients[c].y)]
    if not more:
        return
    was, are = (
        split_clients(settings, Federation(one.card, {c: one.clients[c] for c in more}))
        for one in (before, now)
    )
    for old, new in zip(was, are, strict=True):
        rows = _of(now.clients[old.client].y, had)
        for part, expected in _parts(old).items():
            got = _parts(new)[part]
            tests = got[np.isin(got, rows)] if part == "test" else got
            if not np.array_equal(tests, rows[expected]):
                raise RunError(
                    f"{folder}: client {old.client!r}: {part} part: got {len(tests)} samples, "
                    f"expected the {len(expected)} that it had: new samples of new classes change "
                    f"it with split = {config.split}, best-by = {config.best_by}. Begin another "
                    "run with --from"
                )


def _parts(one: SplitClient) -> dict[str, NDArray[np.int64]]:
    held = np.empty(0, np.int64) if one.validation is None else one.validation
    return {"test": one.test, "validation": held}
