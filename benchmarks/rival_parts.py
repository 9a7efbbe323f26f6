"""What rivals see of a table: people's parts as a run divides them, and statistics of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from fedsub.engines.simulation import split_clients
from fedsub_client.own_heads import own_encoder
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.standardise import POOLS, Scaling, apply, moments, scaling
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.standardised import of_person, seen

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
#: Makes features of samples, both [n, ...].
Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]

#: Lags in samples, levels and number of bands of the statistics.
LAGS = (2, 5, 10, 20)
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
BANDS = 8
#: What is added to divisors and to powers before a logarithm.
LEAST = 1e-8


@dataclass(frozen=True, eq=False)
class Person:
    """A person's training samples x, y and tested samples with their labels."""

    name: str
    x: NDArray[np.float32]
    y: Labels
    tested: NDArray[np.float32]
    right: Labels

    def changed(self, change: Change) -> Person:
        """Return the person with other samples."""
        return replace(self, x=change(self.x), tested=change(self.tested))


@dataclass(frozen=True, eq=False)
class Table:
    """People of one federation as a run with `seed` divides them.

    Parameters
    ----------
    channels : names of a window's channels, or of a vector's entries.
    scale : the federation's standardisation; None: the run has none.
    encoder : of the run.
    """

    people: Sequence[Person]
    classes: int
    channels: Sequence[str]
    seed: int
    scale: Scaling | None
    encoder: Encoder

    @classmethod
    def of(cls, federation: Federation, config: RunConfig) -> Table:
        """Return the table of those who have training and test samples."""
        settings = config.device_settings(config.method)
        split = split_clients(settings.split, federation, config.capacity_settings)
        people = [
            Person(one.client, one.train_x, one.train_y, one.test_x, one.test_y)
            for one in split
            if len(one.train_y) and len(one.test_y)
        ]
        pooled = POOLS.get(config.standardise)
        scale = pooled and scaling(pooled([moments(one.train_x) for one in split]))
        encoder = own_encoder(config.encoder, config.seed, people[0].x.shape[1:])
        assert encoder is not None, f"no encoder for samples {people[0].x.shape[1:]}"
        card = federation.card
        return cls(people, len(card.classes), card.features, config.seed, scale or None, encoder)

    @property
    def windows(self) -> bool:
        """Whether samples are windows ``[channels, time]``; else they are vectors."""
        return self.people[0].x.ndim == 3

    @cached_property
    def scaled(self) -> list[Person]:
        """People with samples as the run standardises them."""
        scale = self.scale
        return self.people_with(lambda x: x if scale is None else apply(scale, x))

    @cached_property
    def by_hand(self) -> list[Person]:
        """People with statistics of their windows; vectors stay as they are."""
        return self.people_with(lambda x: statistics_of(x, self.channels).astype(np.float32))

    @cached_property
    def encoded(self) -> list[Person]:
        """People with the features that the run's encoder gives."""
        own = [of_person(self.encoder, one.x, self.scale) for one in self.people]
        return [
            one.changed(partial(seen, scale=self.scale, encoder=encoder))
            for one, encoder in zip(self.people, own, strict=True)
        ]

    def people_with(self, change: Change) -> list[Person]:
        """Return people whose samples are changed."""
        return [one.changed(change) for one in self.people]


def statistics_of(x: NDArray[np.float32], channels: Sequence[str]) -> Floats:
    """Return statistics ``[n, features]`` of windows ``[n, channels, time]`` in their units.

    Vectors come back as they are.

    Of each channel, and of the length of each three axes in a row: moments, extremes, levels, mean
    difference, zero crossings, log powers of bands, their shares and entropy, the peak's frequency,
    autocorrelations. Then correlations of channels.
    """
    wide = x.astype(np.float64)
    if wide.ndim == 2:
        return wide
    axes = [i for i in range(len(channels) - 2) if _three_axes(channels[i : i + 3])]
    lengths = [np.sqrt((wide[:, i : i + 3] ** 2).sum(1)) for i in axes]
    series = [*wide.transpose(1, 0, 2), *lengths]
    centred = wide - wide.mean(2, keepdims=True)
    centred /= np.sqrt((centred**2).sum(2, keepdims=True)) + LEAST
    pairs = np.triu_indices(len(channels), 1)
    correlations = (centred @ centred.transpose(0, 2, 1))[:, pairs[0], pairs[1]]
    return np.hstack([*map(_of_series, series), correlations])


def _three_axes(names: Sequence[str]) -> bool:
    """Whether names differ in nothing but x, y and z."""
    last = [name[-1] for name in names]
    stems = {name[:-1] for name in names} if last == ["x", "y", "z"] else set()
    if not stems and all(len(name) > 1 for name in names):
        first = [name[0] for name in names]
        stems = {name[1:] for name in names} if first == ["x", "y", "z"] else set()
    return len(stems) == 1


def _of_series(s: Floats) -> Floats:
    """Return statistics ``[n, features]`` of series ``[n, time]``."""
    mean, std = s.mean(1), s.std(1)
    z = (s - mean[:, None]) / (std[:, None] + LEAST)
    power = np.abs(np.fft.rfft(z, axis=1)[:, 1:]) ** 2
    shares = power / (power.sum(1, keepdims=True) + LEAST)
    edges = np.unique(np.geomspace(1, power.shape[1] + 1, BANDS + 1).astype(int)) - 1
    bands = np.add.reduceat(shares, edges[:-1], axis=1)
    parts = [
        *(mean, std, s.min(1), s.max(1), *np.quantile(s, LEVELS, axis=1)),
        *(np.abs(np.diff(s, axis=1)).mean(1), (z**3).mean(1), (z**4).mean(1)),
        (z[:, 1:] * z[:, :-1] < 0).mean(1),
        *np.log(bands * (std**2)[:, None] + LEAST).T,
        *bands.T,
        -(shares * np.log(shares + LEAST)).sum(1),
        power.argmax(1).astype(np.float64),
        *((z[:, lag:] * z[:, :-lag]).mean(1) for lag in LAGS if lag < s.shape[1]),
    ]
    return np.stack(parts, 1)
