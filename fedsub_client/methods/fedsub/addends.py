"""What a person adds to the slots of its clusters in FedSub's secure sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedsub_client.methods.fedsub.fusion_by_means import Array, Bools, places
from fedsub_core.methods import fedsub
from fedsub_core.methods.fedsub_sums import CENTROIDS, OPEN
from fedsub_core.secure.cluster_slots import PROTOTYPES
from fedsub_core.wire.bundles import Bundle


def nearest(upload: Bundle, bundle: Bundle) -> NDArray[np.int64]:
    """Return the open cluster that each class's prototype is nearest to, int64 [classes].

    -1 of classes that the person lacks.

    Parameters
    ----------
    upload : with the person's prototypes.
    bundle : a download with public centroids.
    """
    opened, part = bundle.bits(OPEN), upload.part(fedsub.PROTOTYPES)
    cluster = np.full(len(opened), -1, np.int64)
    centroids = bundle.floats(CENTROIDS).reshape(*opened.shape, -1)
    held = part.at.held((len(opened),)).nonzero()[0]
    for y, rho in zip(held, part.values, strict=True):
        away = np.square(centroids[y] - rho).sum(1, dtype=np.float64)
        cluster[y] = np.where(opened[y], away, np.inf).argmin()
    return cluster


def add_prototypes(parts: Mapping[str, Array], cluster: NDArray[np.int64], upload: Bundle) -> None:
    """Add a person's prototypes to those of its clusters, int64 [classes], -1: in none."""
    parts[PROTOTYPES][(*places(cluster), 0)] = 1
    part = upload.part(fedsub.PROTOTYPES)
    means = np.zeros((len(cluster), part.values.shape[1]), np.float32)
    means[part.at.rows] = part.values
    parts[PROTOTYPES][(*places(cluster), slice(1, None))] = means[cluster >= 0]


def add_rows(
    parts: dict[str, Array],
    rows: Mapping[str, Array],
    asked: Bools,
    cluster: NDArray[np.int64],
    chosen: Bools,
) -> None:
    """Add a layer's rows that are asked for, each behind a one, [asked for, 1 + width].

    Of those that the person does not show it adds zeros.

    Parameters
    ----------
    rows : the person's, by name float32 [units, width].
    asked : bool [classes * K, units].
    cluster : int64 [classes], -1: in none.
    chosen : which units the person shows, bool [classes, units].
    """
    y, of, units = asked.reshape(len(cluster), -1, chosen.shape[1]).nonzero()
    shown = ((cluster[y] == of) & chosen[y, units])[:, None]
    for name, own in rows.items():
        values = np.where(shown, own[units], np.float32(0))
        parts[name] = np.concatenate([shown, values], axis=1)


def within(cluster: NDArray[np.int64], held: Bools) -> NDArray[np.int64]:
    """Return the cluster of each class, -1 where `held`, of classes or of clusters, says no."""
    if held.ndim == 2:
        held = np.take_along_axis(held, np.maximum(cluster, 0)[:, None], 1)[:, 0]
    return np.where(held, cluster, -1)
