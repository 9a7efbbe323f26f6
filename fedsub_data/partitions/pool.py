"""All people's samples in one row, on one time axis, and the clients that are dealt from it.

A dealt client holds samples of several people, whose clocks have nothing to do with each other. So
the people are laid one after another on one time axis, by their ids, with a window's length
between: windows of different people never overlap, windows of one person keep their distance in
time wherever they go, and a blocked split inside a client drops those that overlap. It tests the
last share of each class on this axis, so the last people's more than the first's.

Neighbours in time that overlap may still be dealt to different clients, which is counted. No
client's own test is touched by that; but a model to which another client contributes has seen part
of the signal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.edges import Edges, inner_edges
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import Samples
from fedsub_core.data.windows import time_known, window_places, window_seconds
from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import Counts

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

#: Neighbours in time that share signal, or may, as nobody knows; and those that are torn apart.
OVERLAPPING = "pairs of neighbours that overlap"
UNKNOWN = "pairs of neighbours of which it is not known whether they overlap"
TORN = "of these pairs, given to different clients"
#: Of what is placed, what was placed before, with another client; only where clients may share.
COPIES = "samples placed once more, with another client"


@dataclass(frozen=True, eq=False)
class Pool:
    """The samples of all people, person after person by id, each in order of time.

    Parameters
    ----------
    x : [n, F], [n, F, time], [n, F, height, width] or token ids [n, length]
        As the clients hold them.
    y : int64 [n], labels.
    t : float64 [n] or None, seconds on the common axis, ascending.
    since : int64 [n] or None
        First round in which a sample exists, where any person has that; 0 for the others'.
    classes : number of classes on the card, with samples or without.
    edges : int64 [2, m] or None
        Of graphs, which stand side by side: rows of `x` that are joined; None of other samples.
    group : int64 [n] or None, of each sample the group, those of each person numbered apart.
    neighbours : int64 [k]
        Rows of `x` that share signal with the next row, or may where `known` is False.
    """

    x: Samples
    y: IntArray
    t: FloatArray | None
    since: IntArray | None
    classes: int
    edges: Edges | None = None
    group: IntArray | None = None
    neighbours: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    known: bool = True

    def sizes(self) -> IntArray:
        """Return the number of samples of each class, int64 [classes]."""
        return np.bincount(self.y, minlength=self.classes)

    def client(self, name: str, rows: IntArray) -> ClientData:
        """Return the client that holds `rows`, in order of time, and edges between two of them."""
        rows = np.sort(rows)
        edges = None if self.edges is None else inner_edges(self.edges, rows, len(self.y))
        t = None if self.t is None else self.t[rows]
        since = None if self.since is None else self.since[rows]
        group = None if self.group is None else self.group[rows]
        return ClientData(name, self.x[rows], self.y[rows], t, since, edges, group)

    def count_torn(self, hands: Iterable[IntArray], counts: Counts) -> None:
        """Count the neighbours that share signal, and those of them that come to different clients.

        `hands` are each client's rows. A pair of which one is given to nobody counts as none.
        """
        if not len(self.neighbours):
            return
        placed, torn = np.zeros(len(self.y), np.bool_), np.zeros(len(self.neighbours), np.bool_)
        for rows in hands:
            own = np.zeros(len(self.y), np.bool_)
            own[rows] = True
            placed |= own
            torn |= own[self.neighbours] != own[self.neighbours + 1]
        both = placed[self.neighbours] & placed[self.neighbours + 1]
        counts.add(OVERLAPPING if self.known else UNKNOWN, int(both.sum()))
        counts.add(TORN, int((both & torn).sum()))


def pooled(federation: Federation) -> Pool:
    """Return the samples of all clients of `federation` as one pool.

    Notes
    -----
    Where no client has ``t``, but files are in order of time, windows overlap and their length is
    known, the n-th window of a person starts ``n * window_s * (1 - overlap)`` after the first.
    Where that is not known either, the pool has no ``t``: a blocked split then counts windows. In
    a client they are no closer than in the person's file, so it drops as much or more.

    Raises DataError where some clients have ``t`` and others do not.
    """
    card, people = federation.card, list(federation.clients.values())
    clocks = [_clock(person, card) for person in people]
    # Where nobody has a clock nothing is copied on the way: images are hundreds of megabytes.
    ordered = [
        person if clock is None else person.part(np.argsort(clock, kind="stable"))
        for person, clock in zip(people, clocks, strict=True)
    ]
    since = None
    if any(p.since is not None for p in ordered):
        rounds = [np.zeros(len(p.y), np.int64) if p.since is None else p.since for p in ordered]
        since = np.concatenate(rounds)
    return Pool(
        x=np.concatenate([p.x for p in ordered]),
        y=np.concatenate([p.y for p in ordered]),
        t=_one_axis(people, clocks, card),
        since=since,
        classes=len(card.classes),
        edges=_side_by_side(ordered),
        group=_apart(ordered),
        neighbours=_neighbours(ordered, card),
        known=card.overlap is not None or all(_timed(person, card) for person in ordered),
    )


def _neighbours(people: Sequence[ClientData], card: Card) -> IntArray:
    """Return the rows of the pool whose window the next one overlaps, or may."""
    near_rows, begin = [np.zeros(0, np.int64)], 0
    for person in people:  # each in order of time
        near = np.full(len(person.y), card.overlap != 0)[1:]
        if _timed(person, card):
            place, width = window_places(person, card)
            near = np.diff(place) < width
        near_rows.append(begin + np.flatnonzero(near))
        begin += len(person.y)
    return np.concatenate(near_rows)


def _apart(people: Sequence[ClientData]) -> IntArray | None:
    """Return everybody's groups, numbered apart; None where somebody has none."""
    numbers, begin = [np.zeros(0, np.int64)], 0
    for person in people:
        if person.group is None:
            return None
        _, own = np.unique(person.group, return_inverse=True)
        numbers.append(begin + own)
        begin += int(own.max()) + 1
    return np.concatenate(numbers)


def _timed(person: ClientData, card: Card) -> bool:
    """Return whether a person's times show which windows overlap."""
    return time_known(person, card) == "seconds from t"


def _side_by_side(people: Sequence[ClientData]) -> Edges | None:
    """Return all people's edges, by places in the pool."""
    parts, begin = list[Edges](), 0
    for person in people:
        if person.edges is not None:
            parts.append(begin + person.edges)
        begin += len(person.y)
    return np.concatenate(parts, axis=1) if parts else None


def deal(pool: Pool, hands: Sequence[IntArray], counts: Counts) -> dict[str, ClientData]:
    """Return clients ``c000``, ``c001``, ... that hold the rows of `pool` in `hands`.

    `counts` gains the neighbours in time that are torn apart.
    """
    pool.count_torn(hands, counts)
    digits = max(3, len(str(len(hands) - 1)))
    names = [f"c{i:0{digits}d}" for i in range(len(hands))]
    return {name: pool.client(name, rows) for name, rows in zip(names, hands, strict=True)}


def draw(pool: Pool, wanted: IntArray, rng: np.random.Generator) -> list[IntArray]:
    """Return rows of `pool` for each client: ``wanted [clients, classes]`` at random, none twice.

    The rows of a class that nobody wants are left out.
    """
    hands: list[list[IntArray]] = [[] for _ in wanted]
    for label in range(pool.classes):
        rows = rng.permutation(np.flatnonzero(pool.y == label))
        ends = np.cumsum(wanted[:, label])
        for hand, part in zip(hands, np.split(rows[: ends[-1]], ends[:-1]), strict=True):
            hand.append(part)
    return [np.concatenate(hand) for hand in hands]


def _clock(person: ClientData, card: Card) -> FloatArray | None:
    """Return the start of each window: as measured, as follows from the order, or None."""
    if person.t is not None:
        return person.t
    length = window_seconds(person, card)
    if length is not None and card.overlap and card.time_ordered:
        step = length * (1 - card.overlap)
        return np.arange(len(person.y), dtype=np.float64) * step
    return None


def _one_axis(
    people: Sequence[ClientData], clocks: Sequence[FloatArray | None], card: Card
) -> FloatArray | None:
    without = [p.client for p in people if p.t is None]
    if 0 < len(without) < len(people):
        raise DataError(
            f"federation {card.name!r}: client {without[0]!r} has no t (seconds), others have; "
            "expected it of all or of none, because pooled samples share one time axis. Add t to "
            f"{len(without)} file(s) or take it out of all."
        )
    known = [np.sort(clock) for clock in clocks if clock is not None]
    if not known:
        return None
    axis: list[FloatArray] = []
    end, length = 0.0, window_seconds(people[0], card)
    for clock in known:
        shifted: FloatArray = clock - clock[0] + end
        axis.append(shifted)
        # The window's own length, and as much again; only the order counts where it is unknown.
        end = float(shifted[-1]) + 2 * (length or 1.0)
    return np.concatenate(axis)
