"""Newcomers' data: read, held against what the run saw, and divided into trained and tested."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedsub.newcomers.finished_run import ForNewcomers
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card, read_card
from fedsub_core.data.client_data import ARRAYS, ClientData
from fedsub_core.data.client_file import check_client, read_client
from fedsub_core.data.federation import Federation, client_files
from fedsub_core.data.held_out import few_of_each
from fedsub_core.data.npz import read_npz
from fedsub_core.data.samples import Samples
from fedsub_core.data.sources import WATCH, load_federation
from fedsub_core.data.target import is_target, no_label
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.client_ids import nearest_person

#: What both cards must say alike where both say something.
_ALIKE = ("units", "sampling_rate_hz", "sample")


@dataclass(frozen=True)
class NewPeople:
    """The data of people who come after a run.

    Parameters
    ----------
    unlabelled : the ids of those whose samples have no labels at all; theirs are all 0, or the
        low end of a target.
    """

    card: Card
    clients: Mapping[str, ClientData]
    unlabelled: frozenset[str] = frozenset()

    @classmethod
    def of(cls, federation: Federation) -> NewPeople:
        """Return the people of a federation."""
        return cls(federation.card, federation.clients)

    def those(self, people: Collection[str]) -> NewPeople:
        """Return some people alone; () is all.

        Raises ConfigError if one is not there.
        """
        for one in people:
            if one not in self.clients:
                there = sorted(self.clients)
                raise ConfigError(
                    f"got person {one!r}, expected one of: {', '.join(there)}."
                    f"{nearest_person(one, there)}"
                )
        wanted = {one: self.clients[one] for one in people or self.clients}
        return replace(self, clients=wanted)


def read_people(source: str) -> NewPeople:
    """Return the people of a federation's folder, whose files need not have labels ``y``.

    Raises DataError if there is none, or a file cannot be used.
    """
    if source == WATCH:
        return NewPeople.of(load_federation(source))
    folder = Path(source)
    card, clients, unlabelled = read_card(folder), dict[str, ClientData](), set[str]()
    for path in client_files(folder):
        if (data := _without_labels(path, card)) is not None:
            unlabelled.add(data.client)
        else:
            data = read_client(path, card)
        clients[data.client] = data
    if not clients:
        raise DataError(f"{folder / 'clients'}: got nobody, expected <id>.npz of each person")
    return NewPeople(card, clients, frozenset(unlabelled))


def _without_labels(path: Path, card: Card) -> ClientData | None:
    """Return the samples of a file without labels; None where it has some, or cannot be read."""
    try:
        arrays, names = read_npz(path, ARRAYS)
    except Exception:  # whoever reads it once more says why
        return None
    if "x" not in arrays or any(name.lower() == "y" for name in names) or not arrays["x"].ndim:
        return None
    nothing = np.full(len(arrays["x"]), no_label(card.target))
    return check_client(path, path.stem, {**arrays, "y": nothing}, card)


def fitting(card: Card, data: ClientData, given: ForNewcomers) -> tuple[Card, ClientData]:
    """Return a person's card and samples with the run's labels.

    Raises DataError if classes are not the run's, or the target is another, or samples are of
    another kind, length, features or units.
    """
    where = f"client {data.client!r}"
    targets = card.target is not None, is_target(given.classes)
    if any(targets) and card.classes != given.classes:
        got, expected = map(", ".join, (card.classes, given.classes))
        raise DataError(f"{where}: target: got {got}, expected the run's: {expected}")
    if unknown := [name for name in card.classes if name not in given.classes]:
        raise DataError(
            f"{where}: classes: got {', '.join(map(repr, unknown))}, expected the run's: "
            f"{', '.join(given.classes)}"
        )
    shape = card.shape_of(data.x)
    if shape != given.shape:
        raise DataError(
            f"{where}: x: got samples of shape {shape!r}, expected {given.shape!r}, the run's. Cut "
            "windows of as many samples, of the same channels"
        )
    if given.card is not None:
        if card.features != given.card.features:
            raise DataError(
                f"{where}: features: got {', '.join(card.features)}, expected "
                f"{', '.join(given.card.features)}, the run's, in this order"
            )
        for key in _ALIKE:
            got, expected = getattr(card, key), getattr(given.card, key)
            if got and expected and got != expected:
                raise DataError(f"{where}: {key}: got {got!r}, expected {expected!r}, the run's")
    if card.classes == given.classes:
        return card, data
    places = np.array([given.classes.index(name) for name in card.classes], np.int64)
    card = replace(card, classes=given.classes, meanings=None)
    return card, replace(data, y=places[data.y])


@dataclass(frozen=True)
class Labels:
    """Which of a person's labels are used.

    Parameters
    ----------
    per_class : how many of each class at most, drawn at random from the training part; for a
        target, how many in all. None: as in the run.
    test_share : of each class's samples that is tested; 0: nothing is; None: as in the run.
    """

    per_class: int | None = None
    test_share: float | None = None


def divided(
    card: Card, data: ClientData, how: SplitSettings, labels: Labels, labelled: bool
) -> tuple[SplitClient, Samples]:
    """Return a person's labelled training part and its test part; all samples of the former.

    By these samples, labelled or not, it standardises its own, and its encoder ranks others. Whose
    samples are too few to be divided trains on all of them.
    """
    data, how = replace(data, since=None), replace(how, best_by="last")
    if labels.per_class is not None:
        how = replace(how, train_share=1.0, unlabelled=0.0)
    if labels.test_share:
        how = replace(how, test_share=labels.test_share)
    every, none = np.arange(len(data.y)), np.empty(0, np.int64)
    y = data.y if card.target is None else card.target.scaled(data.y)
    parts = SplitClient(data.client, data.x, every, none, y, y[none])
    parts = replace(parts, vocabulary=card.vocabulary, padding=card.padding, sensors=card.sensors)
    if labelled and labels.test_share != 0:
        with suppress(DataError):  # too few of them
            parts = split_client(data, card, how)
    seen = parts.train_x
    most = labels.per_class if labelled else 0
    if most is not None:
        few = few_of_each(parts.train, data.stratified, most, how.seed)
        parts = replace(parts, train=few, train_y=y[few], known=parts.train)
    return parts, seen
