"""Our features of windows beside those of aeon's MiniRocket and ROCKET.

First our kernels, put into aeon's two transforms: how many of our features are another level than
what aeon computes. Then macro F1, mean over people, of ridge heads (scikit-learn's, alpha by
leave-one-out) on as many features of ours, of MiniRocket's, which takes thresholds from everybody's
windows, and of ROCKET's. aeon is no dependency: install it beside, `pip install --no-deps --target
DIR aeon numba llvmlite Deprecated wrapt`, and set PYTHONPATH=DIR. Without it our part alone is
measured, and that is said.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from script import REAL, put_lines, read_arguments
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import first_people

from fedsub_client.split_client import split_client
from fedsub_core.closed_form.grids import PENALTIES
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.encoders.encoder import FULL, quantised
from fedsub_core.encoders.kernels_encoder import LENGTH, PLACES, KernelsEncoder
from fedsub_core.encoders.names import PER_KERNEL

TINY = [
    *("--data", f"{REAL}/uci-har", "--clients", "3", "--windows", "4", "--kernels", "5"),
    *("--train-shares", "0.2"),
]
#: What the lines of results begin with, also without aeon.
LINES = ("ours, 5 kernels, 0.2 of labels",)

HEAD = ("features of", "kernels", "labels", "features", "own heads", "everybody's")

Array = NDArray[np.floating]
#: Of a person: trained x and y, tested x and y.
Parts = tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]
#: Makes of training windows, which it may look at, what makes features of windows.
Transform = Callable[[Array], Callable[[Array], Array]]


def shares_of_minirocket(encoder: KernelsEncoder, steps: Array) -> Array:
    """Return the shares [n, kernels, 4] that aeon's MiniRocket finds by our kernels."""
    from aeon.transformations.collection.convolution_based import MiniRocket

    transform, found = MiniRocket(), []
    transform.fit(steps)
    for kernel in encoder.kernels:
        # Every second of its 84 kernels is padded, at the next dilation the others: one of both is.
        many = 2 * len(PLACES)
        transform.parameters = (
            np.full(many, len(kernel.channels), np.int32),
            np.tile(np.array(kernel.channels, np.int32), many),
            np.full(2, kernel.dilation, np.int32),
            np.full(2, PER_KERNEL - 1, np.int32),
            np.tile(np.array(kernel.thresholds, np.float32), many),
        )
        which = PLACES.index(kernel.places)
        every = np.asarray(transform.transform(steps)).reshape(len(steps), many, -1)
        found.append(every[:, which % 2 * len(PLACES) + which])
    return np.stack(found, 1)


def answers_of_rocket(encoder: KernelsEncoder, steps: Array) -> tuple[Array, Array]:
    """Return shares [n, kernels, 4] and greatest sums [n, kernels] of ROCKET by our kernels."""
    from aeon.transformations.collection.convolution_based import Rocket

    weights, channels, counts, biases, dilations = [], [], [], [], []
    for kernel in encoder.kernels:
        of_one = np.full(LENGTH, -1, np.float32)
        of_one[list(kernel.places)] = 2
        for threshold in kernel.thresholds:
            weights.append(np.tile(of_one, len(kernel.channels)))
            channels.append(kernel.channels)
            counts.append(len(kernel.channels))
            biases.append(-threshold)
            dilations.append(kernel.dilation)
    reach = LENGTH // 2 * np.array(dilations, np.int32)
    transform = Rocket(n_kernels=1, normalise=False)
    transform.fit(steps)
    transform.kernels = (
        np.concatenate(weights),
        np.full(len(counts), LENGTH, np.int32),
        np.array(biases, np.float32),
        np.array(dilations, np.int32),
        reach,
        np.array(counts, np.int32),
        np.concatenate(channels).astype(np.int32),
    )
    found = np.asarray(transform.transform(steps)).reshape(len(steps), encoder.size, -1, 2)
    greatest = found[:, :, :, 1] - np.array(biases, np.float32).reshape(1, encoder.size, -1)
    return found[..., 0], greatest[:, :, 0]


def differing(encoder: KernelsEncoder, x: NDArray[np.float32]) -> list[str]:
    """Return lines that say how many of our levels are others than aeon's features give."""
    steps, time = quantised(x), x.shape[2]
    ours = encoder.levels(steps).reshape(len(x), encoder.size, PER_KERNEL).astype(int)

    def by_shares(shares: Array) -> str:
        above = np.rint(shares * time).astype(int)
        levels = (2 * (2 * FULL - 1) * above + time) // (2 * time) - FULL
        return f"{np.count_nonzero(levels != ours[:, :, :-1])} of {levels.size} levels differ"

    wide = steps.astype(np.float32)
    shares, greatest = answers_of_rocket(encoder, wide)
    full = np.array([kernel.level for kernel in encoder.kernels])
    levels = (2 * np.rint(greatest).astype(int) + full) // (2 * full)
    unequal = np.count_nonzero(np.clip(levels, -FULL, FULL - 1) != ours[:, :, -1])
    return [
        f"MiniRocket's shares by our kernels: {by_shares(shares_of_minirocket(encoder, wide))}",
        f"ROCKET's shares by our kernels: {by_shares(shares)}",
        f"ROCKET's maxima by our kernels: {unequal} of {levels.size} levels differ",
    ]


def transforms(kernels: int) -> dict[str, Transform]:
    """Return transforms with as many features as so many of our kernels; aeon's if it is here."""

    def ours(train: Array) -> Callable[[Array], Array]:
        return KernelsEncoder(kernels, 0, train.shape[1:]).encode

    found: dict[str, Transform] = {"ours": ours}
    if find_spec("aeon") is None:
        return found
    from aeon.transformations.collection.convolution_based import MiniRocket, Rocket

    features = PER_KERNEL * kernels
    minirocket = len(PLACES) * -(-features // len(PLACES))
    found["MiniRocket"] = lambda x: MiniRocket(minirocket, random_state=0).fit(x).transform
    found["ROCKET"] = lambda x: Rocket(features // 2, random_state=0).fit(x).transform
    return found


def split(people: Federation, share: float) -> list[Parts]:
    """Return everybody's windows as a run splits them, each channel standardised over all."""
    config = read_config(None, {"method": "fedavg", "beside": "", "train-share": share})
    settings = config.device_settings("fedavg").split
    each = [split_client(one, people.card, settings) for one in people.clients.values()]
    trained = np.concatenate([np.asarray(one.train_x, np.float32) for one in each])
    mean, deviation = (f(trained, axis=(0, 2), keepdims=True) for f in (np.mean, np.std))

    def scaled(x: Array) -> Array:
        found: Array = ((np.asarray(x, np.float32) - mean) / deviation).astype(np.float32)
        return found

    return [(scaled(o.train_x), o.train_y, scaled(o.test_x), o.test_y) for o in each]


def macro_f1(people: list[Parts], transform: Transform) -> tuple[int, float, float]:
    """Return how many features there are, and macro F1 of own heads and of everybody's."""
    features = transform(np.concatenate([x for x, *_ in people]))
    made = [(features(x), y, features(test_x), test_y) for x, y, test_x, test_y in people]
    everybody = _head([part[0] for part in made], [part[1] for part in made])
    own, shared = list[float](), list[float]()
    for x, y, test_x, test_y in made:
        alone = _head([x], [y]) if len(np.unique(y)) > 1 else None
        said = np.full(len(test_y), y[0]) if alone is None else alone(test_x)
        for found, predicted in ((own, said), (shared, everybody(test_x))):
            labels = np.unique(test_y)
            found.append(float(f1_score(test_y, predicted, average="macro", labels=labels)))
    return made[0][0].shape[1], fmean(own), fmean(shared)


def _head(x: list[Array], y: list[NDArray[np.int64]]) -> Callable[[Array], NDArray[np.int64]]:
    head = make_pipeline(StandardScaler(), RidgeClassifierCV(PENALTIES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant features
        fitted: Callable[[Array], NDArray[np.int64]] = head.fit(
            np.concatenate(x), np.concatenate(y)
        ).predict
    return fitted


def main() -> None:
    given = read_arguments(
        TINY,
        data=f"{REAL}/uci-har",
        clients=30,
        windows=300,
        kernels=[100, 500],
        train_shares=[0.05, 1],
        csv=Path,
    )
    people = first_people(given.data, given.clients)
    print(f"{given.data}: {len(people.clients)} people")
    some = np.concatenate([x for x, *_ in split(people, 1)])
    some = some[np.random.default_rng(0).permutation(len(some))[: given.windows]]
    if find_spec("aeon") is None:
        print("aeon is not installed: nothing is compared (first lines of this script)")
    else:
        for line in differing(KernelsEncoder(given.kernels[0], 0, some.shape[1:]), some):
            print(line, flush=True)
    print("heads on features of                      features   own F1   everybody's")
    for kernels in given.kernels:
        for share in given.train_shares:
            parts = split(people, share)
            for name, transform in transforms(kernels).items():
                features, own, shared = macro_f1(parts, transform)
                line = f"{name}, {kernels} kernels, {share:g} of labels ".ljust(44)
                print(f"{line}{features:6}{own:9.3f}{shared:14.3f}", flush=True)
                cells = name, kernels, share, features, f"{own:.3f}", f"{shared:.3f}"
                put_lines(given.csv, HEAD, [cells], 3)


if __name__ == "__main__":
    main()
