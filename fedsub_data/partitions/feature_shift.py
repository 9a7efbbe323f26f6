"""Partition in which every client measures with a sensor of its own, worn in its own way.

Clients then differ in p(x | y), not in their labels: the case that label skew leaves out.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import LEVELS, TOKENS, Samples
from fedsub_core.data.standardise import moments, pool
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import choice, option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.pool import FloatArray, deal, pooled
from fedsub_data.preparing.preparation import Counts

#: One axis of a 3-axis sensor. Means of its axes rotate as the axes do; other features do not.
_AXIS = re.compile(r"(.+)_([xyz])(_mean)?")


@dataclass(frozen=True)
class FeatureShiftOptions:
    """Options of :func:`feature_shift`."""

    base: str = choice(
        "natural",
        "iid",
        doc="natural: the people as they are; iid: all samples distributed at random",
    )
    clients: int = option(30, "number of clients if base is iid", minimum=1)
    gain: float = option(
        0.1, "standard deviation of the logarithm of a channel's gain", minimum=0, maximum=5
    )
    offset: float = option(
        0.1,
        "standard deviation of a channel's offset, in the channel's own",
        minimum=0,
        maximum=1e3,
    )
    rotation: float = option(
        0.0,
        "largest angle by which 3-axis channels are rotated, in degrees",
        minimum=0,
        maximum=180,
    )


def feature_shift(
    federation: Federation, options: FeatureShiftOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients whose channels went through a sensor of their own.

    ``x' [c] = g [c] * (R x) [c] + b [c]`` with ``ln g ~ Normal(0, gain)`` and ``b ~ Normal(0,
    offset * std)``, where std is the channel's over all people's samples; 0 for a channel that is
    negative nowhere (deviations, energies, rates): it could become what it cannot be. R turns every
    three channels ``<name>_x, <name>_y, <name>_z`` (or their means, ``<name>_x_mean``, ...) about
    one axis, uniform on the sphere, by an angle uniform in [0, `rotation`]: one device, worn
    differently, so all its triples turn together. A client's sensor depends on the seed and its id
    alone, and its gains stay the same when the rotation is changed.

    With ``base = iid`` the samples of all people (:mod:`fedsub_data.partitions.pool`) are dealt
    in a random order, all of them, to clients whose sizes differ by one at most.

    Raises ConfigError where a rotation is asked for and no three channels form a triple. Raises
    DataError where fewer samples than two for each client would have to be dealt, or samples are
    token ids.
    """
    if federation.card.sample == TOKENS:
        raise DataError(
            f"feature-shift: federation {federation.card.name!r} holds token ids, which no sensor "
            "changes; expected features, windows or images. Choose another kind."
        )
    triples = _triples(federation.card.features)
    if options.rotation > 0 and not triples:
        raise ConfigError(
            f"feature-shift: rotation: got {options.rotation:g} degrees for features "
            f"{', '.join(federation.card.features)}; expected three consecutive ones that end in "
            "_x, _y and _z. Set rotation=0."
        )
    if options.base == "iid":
        clients = _dealt_iid(federation, options.clients, seed, counts)
    else:
        clients = dict(federation.clients)
    spread = _channel_std(federation.clients.values()) * options.offset
    signless = _least(federation.clients.values()) >= 0
    spread[signless] = 0.0
    never = int(signless.sum()) if options.offset > 0 else 0
    counts.add("channels never below 0: without an offset", never)
    counts.add("3-axis sensors turned", len(triples) if options.rotation > 0 else 0)
    return {
        name: replace(data, x=_sensed(data.x, name, spread, triples, options, seed))
        for name, data in clients.items()
    }


def _sensed(
    x: Samples,
    client: str,
    spread: FloatArray,
    triples: list[int],
    options: FeatureShiftOptions,
    seed: int,
) -> Samples:
    rng = np.random.default_rng(derive_seed(seed, client, 0, "partition: feature shift"))
    channels = (len(spread),) + (1,) * (x.ndim - 2)
    gain = np.exp(options.gain * rng.standard_normal(len(spread)))
    offset = spread * rng.standard_normal(len(spread))
    turned = x.astype(np.float64)
    if options.rotation > 0:
        matrix = _rotation(rng.standard_normal(3), np.radians(options.rotation) * rng.random())
        for first in triples:
            axes = slice(first, first + 3)
            turned[:, axes] = np.einsum("ij,nj...->ni...", matrix, turned[:, axes])
    sensed = turned * gain.reshape(channels) + offset.reshape(channels)
    if x.dtype == np.uint8:
        sensed = np.rint(sensed).clip(0, LEVELS - 1)
    return sensed.astype(x.dtype)


def _rotation(axis: FloatArray, angle: float) -> FloatArray:
    """Return the matrix that turns by `angle` (radians) about `axis`: Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turned: FloatArray = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
    return turned


def _triples(features: tuple[str, ...]) -> list[int]:
    """Return the index of each x axis that is followed by the y and z axis of its sensor."""
    axes = [_AXIS.fullmatch(name) for name in features]
    return [
        i
        for i in range(len(axes) - 2)
        if all(axes[i : i + 3])
        and "".join(m[2] for m in axes[i : i + 3] if m) == "xyz"
        and len({(m[1], m[3]) for m in axes[i : i + 3] if m}) == 1
    ]


def _channel_std(people: Iterable[ClientData]) -> FloatArray:
    """Return the standard deviation of each channel over all samples, float64 [channels]."""
    people = list(people)
    if people[0].x.dtype == np.uint8:  # no float copy of all images
        m = pool([moments(p.x) for p in people])
        deviation: FloatArray = np.sqrt((m.sumsq / m.count - (m.sum / m.count) ** 2).clip(0))
        return deviation
    rows = [np.moveaxis(p.x, 1, -1).reshape(-1, p.x.shape[1]) for p in people]
    n = sum(len(r) for r in rows)
    mean = sum(r.sum(axis=0, dtype=np.float64) for r in rows) / n
    spread: FloatArray = np.sqrt(sum(((r - mean) ** 2).sum(axis=0) for r in rows) / n)
    return spread


def _least(people: Iterable[ClientData]) -> FloatArray:
    """Return the least value of each channel over all samples, float64 [channels]."""
    least = [np.moveaxis(p.x, 1, -1).reshape(-1, p.x.shape[1]).min(axis=0) for p in people]
    lowest: FloatArray = np.min(least, axis=0).astype(np.float64)
    return lowest


def _dealt_iid(
    federation: Federation, clients: int, seed: int, counts: Counts
) -> dict[str, ClientData]:
    pool = pooled(federation)
    if 2 * clients > len(pool.y):
        raise DataError(
            f"feature-shift: {clients} clients need {2 * clients} samples, 2 each; got "
            f"{len(pool.y)}. Choose fewer clients."
        )
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: iid"))
    return deal(pool, np.array_split(rng.permutation(len(pool.y)), clients), counts)
