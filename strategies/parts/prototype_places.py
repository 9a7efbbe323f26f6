"""Where people's prototypes lie about everybody's: in a plane, and how much nearer to their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.settings import RoundSettings
from fedsub_core.method_parts.prototypes import PROTOTYPES
from fedsub_core.metric_names import PROTOTYPE_RATIO, PROTOTYPE_X, PROTOTYPE_Y
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.parts.prototype_means import HELD
from strategies.rounds.server_half import State

Floats = NDArray[np.float64]


def prototype_places(
    state: State, uploads: Mapping[str, Bundle], turn: Turn, rounds: RoundSettings
) -> list[MetricRow]:
    """Return the place in a plane of each prototype that was sent, and of each class's mean.

    They are of the first round, and of those after which everybody is tested. The plane is that of
    the round's two greatest principal components, of people's prototypes and the means together:
    each round has its own. The means are of client "". The ratio is the mean distance of a
    prototype to its own class's mean, over that to other classes' means, in all dimensions: below 1
    where prototypes lie by class.

    Parameters
    ----------
    state : with the prototypes after the round [classes, d], and which there are.
    uploads : of the round, with ``prototypes``.
    """
    if not uploads or not (turn.round == 1 or rounds.evaluated(turn.round)):
        return []
    return list(_places(state, uploads, turn.round))


def _places(state: State, uploads: Mapping[str, Bundle], round: int) -> Iterator[MetricRow]:
    means = state[PROTOTYPES].double().numpy()
    there = state[HELD].numpy().nonzero()[0]
    owners, labels = [""] * len(there), there.tolist()
    points = [means[there]]
    for client in sorted(uploads):
        part = uploads[client].part(PROTOTYPES)
        points.append(part.values.astype(np.float64))
        own = [] if part.at.rows is None else part.at.rows.tolist()
        labels, owners = labels + own, owners + [client] * len(own)
    all_points = np.concatenate(points)
    if not len(all_points) or not np.isfinite(all_points).all():
        return
    for owner, label, (x, y) in zip(owners, labels, plane(all_points), strict=True):
        yield MetricRow(round, owner, label, PROTOTYPE_X, float(x))
        yield MetricRow(round, owner, label, PROTOTYPE_Y, float(y))
    if len(there) > 1:
        sent, places = all_points[len(there) :], np.searchsorted(there, labels[len(there) :])
        yield MetricRow(round, "", None, PROTOTYPE_RATIO, ratio(sent, places, means[there]))


def plane(points: Floats) -> Floats:
    """Return the places [n, 2] of points [n, d] along their two greatest principal components.

    Of each component, the greatest of its numbers is above 0, so that equal points have equal
    places.
    """
    away = points - points.mean(0)
    # Of few numbers, however many people there are: as many as the embedding has.
    axes = np.linalg.eigh(away.T @ away)[1][:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    places: Floats = away @ axes
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def ratio(sent: Floats, own: NDArray[np.int64], means: Floats) -> float:
    """Return the mean distance to one's own mean over that to all others; nan if these are 0."""
    between = np.stack([np.linalg.norm(sent - mean, axis=1) for mean in means], axis=1)
    mine = np.zeros(between.shape, bool)
    mine[np.arange(len(sent)), own] = True
    others = float(between[~mine].mean())
    return float(between[mine].mean()) / others if others > 0 else float("nan")
