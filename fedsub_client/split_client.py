"""One person's training and test parts, in every round: data may come during a run.

Two ways in which data come: a scenario says from which round on a client has each sample
(``since`` in its file), or a device's file really grows between two rounds
(:mod:`fedsub_client.file_history`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_client.held_back import comes, held_back
from fedsub_core.capacity import WHOLE, Capacity
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.edges import Edges
from fedsub_core.data.federation import Card
from fedsub_core.data.findings import SplitNote, how_split, split_note, with_sides
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.held_out import few_of_each, labelled, thinned
from fedsub_core.data.samples import NODE, Samples, kept_shape
from fedsub_core.data.sensors import Sensors
from fedsub_core.data.splits import SplitKind, split, split_kind
from fedsub_core.data.windows import together
from fedsub_core.errors import DataError


@dataclass(frozen=True, eq=False)
class SplitClient:
    """One person's data, split; features as they come from the file, and stay where they are.

    Parameters
    ----------
    x : float32, uint8 or int32 [samples, *features], of the file.
    train, test : int64 [n], the samples of each part.
    train_y, test_y : int64 [n], labels; of a target float32 [n], places in its range
    train_since, test_since : int64 [n] or None
        First round in which the client has each sample; None: from the start.
    capacity : share of the encoder or model that the device holds now, in (0, 1].
    drawn : shares of which it holds one drawn anew in each round; (): always `capacity`.
    together : how many successive samples hold much the same.
    t : float64 [samples], seconds; None where the file has none.
    kind : how training and test part were divided.
    copies : of each sample the first that is the same, int64 [samples]; None where all differ.
    validation : int64 [n], training samples held back to choose the best round by, ascending; empty
        where there are too few. None: the run holds none back.
    note : how all samples were divided, in words and numbers; None where nobody said.
    known : int64 [n], samples that the person has before the first round, labelled or not; None:
        those of the training part then.
    vocabulary, padding, sensors : as the card says; None of other samples.
    edges : int64 [2, m], samples that are joined, of a graph's nodes; None of other samples.
    """

    client: str
    x: Samples
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    train_y: NDArray[Any]
    test_y: NDArray[Any]
    train_since: NDArray[np.int64] | None = None
    test_since: NDArray[np.int64] | None = None
    capacity: float = 1.0
    drawn: tuple[float, ...] = ()
    together: int = 1
    t: NDArray[np.float64] | None = None
    kind: SplitKind = "stratified"
    copies: NDArray[np.int64] | None = None
    validation: NDArray[np.int64] | None = None
    validation_y: NDArray[Any] | None = None
    note: SplitNote | None = None
    vocabulary: int | None = None
    padding: int | None = None
    edges: Edges | None = None
    sensors: Sensors | None = None
    known: NDArray[np.int64] | None = None

    @property
    def known_x(self) -> Samples:
        """Samples that the person has before the first round, labelled or not, [n, *features]."""
        return self.at(0).train_x if self.known is None else self.x[self.known]

    @property
    def train_x(self) -> Samples:
        """Samples of the training part, [n, *features]; a copy."""
        return self.x[self.train]

    @property
    def test_x(self) -> Samples:
        """Samples of the test part, [n, *features]; a copy."""
        return self.x[self.test]

    @property
    def train_copies(self) -> NDArray[np.int64] | None:
        """`copies` of the training part, int64 [n]: samples are the same where it is."""
        return None if self.copies is None else self.copies[self.train]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample, with what its numbers are (:mod:`fedsub_core.data.samples`)."""
        kind = None if self.edges is None else NODE
        return kept_shape(self.x, self.vocabulary, self.padding, kind, self.sensors)

    def holding(self, capacity: float) -> SplitClient:
        """Return the client with a device that holds another share."""
        return self if capacity == self.capacity else replace(self, capacity=capacity)

    @property
    def can_hold(self) -> Capacity:
        """Capacity of the client's device, in one round and another."""
        return Capacity(min(self.drawn, default=self.capacity), self.drawn)

    @property
    def holds_back(self) -> int:
        """How many training samples are held back to choose the best round by."""
        return 0 if self.validation is None else len(self.validation)

    def held(self, round: int) -> tuple[int, int]:
        """Return the numbers of training and test samples of the client in `round`."""
        if self.train_since is None or self.test_since is None:
            return len(self.train_y), len(self.test_y)
        return (
            int(np.count_nonzero(self.train_since <= round)),
            int(np.count_nonzero(self.test_since <= round)),
        )

    def at(self, round: int) -> SplitClient:
        """Return the client with its samples of `round`; before the first, those at the start."""
        if self.train_since is None or self.test_since is None:
            return self
        train, test = self.train_since <= max(round, 1), self.test_since <= max(round, 1)
        return replace(
            self,
            train=self.train[train],
            test=self.test[test],
            train_y=self.train_y[train],
            test_y=self.test_y[test],
            train_since=None,
            test_since=None,
        )

    def new_classes(self, round: int) -> list[int]:
        """Return the classes that came to the test part with its newest samples; none at first."""
        if self.test_since is None:
            return []
        held = self.test_since <= round
        newest = self.test_since[held].max(initial=0)
        if newest <= 1:
            return []
        came = self.test_since[held] == newest
        labels = self.test_y[held]
        return [int(label) for label in np.setdiff1d(labels[came], labels[~came])]


def split_client(
    client: ClientData,
    card: Card,
    settings: SplitSettings,
    sizes: tuple[int, ...] = (),
    capacity: Capacity = WHOLE,
) -> SplitClient:
    """Split one person's data as the settings say.

    People held out by ``unseen`` are split too: they train on a part of their data once they join.

    Parameters
    ----------
    sizes : of the device's file whenever it was found longer
        (:class:`fedsub_client.file_history.FileHistory`); empty: it never grew.

    Raises DataError where the client would have no training or no test sample, at first or at all.
    """
    y = client.y if card.target is None else card.target.scaled(client.y)
    client = client.stratified
    s, kind = settings, split_kind(settings.split, client, card)
    grown = len(sizes) > 1
    if grown:
        both = split_grown(client, card, s.split, s.test_share, s.seed, sizes, s.tested_fold)
    else:
        both = split(client, card, kind, s.test_share, s.seed, s.tested_fold)
    words, test = with_sides(how_split(client, card, kind), client, card, both), both[1]
    train = thinned(both[0], client, s.train_share, s.seed)
    if s.unseen_labels and client.client in s.kept_out:
        train = few_of_each(train, client, s.unseen_labels, s.seed)
    since = client.since
    first = np.ones(len(y), np.bool_) if since is None else since <= 1
    first[sizes[0] if sizes else len(y) :] = False
    train = labelled(train, client, first, s.unlabelled, s.unlabelled_classes, s.seed)
    validation = None
    if s.validation:
        train, validation = held_back(train, client, card, kind, s, grown)
    parts = SplitClient(client.client, client.x, train, test, y[train], y[test], kind=kind)
    parts = replace(parts, capacity=capacity.share, drawn=capacity.drawn, edges=client.edges)
    parts = replace(parts, together=together(client, card), t=client.t, copies=client.first_copies)
    parts = replace(parts, vocabulary=card.vocabulary, padding=card.padding, sensors=card.sensors)
    if validation is not None:
        parts = replace(parts, validation=validation, validation_y=y[validation])
    parts = replace(parts, note=split_note(words, client, (train, test, validation)))
    if since is None or not comes(client):
        return parts
    parts = replace(parts, train_since=since[train], test_since=since[test])
    if 0 in parts.held(1):
        trained, tested = parts.held(1)
        raise DataError(
            f"client {client.client!r}: in round 1 it has {trained} samples for training and "
            f"{tested} for testing after a {kind} split; expected one of each at least. Let it "
            "keep more classes from the start, or change split or test-share."
        )
    return parts
