"""Whether a person's sums, as they are sent, give back the person's windows.

The attacker knows the encoder (its seed is public), the standardisation, and other people's
windows. First the features of single windows, from sums over so many (``sums_attackers.py`` beside
this file): of how many people all came back to the last bit. Then windows whose features these
are, by gradients from the nearest of others' windows: shape is the correlation with the true window
at the best shift in time, channels' means taken out; levels and strength are the correlations of
channels' means, and of the logarithms of their deviations, over all windows. Then the same of class
means. Last the price of sending nothing of a class with fewer samples than some: macro F1.
"""

from statistics import fmean

import numpy as np
import torch
from closed_form_privacy import encoded
from numpy.typing import NDArray
from script import REAL, read_arguments
from sklearn.metrics import f1_score
from sums_attackers import exact_features, features_of_samples, windows_of
from trained import first_people

from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.personal import personal_head
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, statistics, total
from fedsub_core.data.federation import Federation
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.kernels_encoder import KernelsEncoder

TINY = [
    *("--data", f"{REAL}/wisdm-windows", "--clients", "4", "--kernels", "20"),
    *(
        "--encoder",
        "kernels:20+statistics",
        "--samples",
        "1",
        "3",
        "--steps",
        "5",
        "--train-shares",
        "0.05",
        "--least",
        "1",
        "2",
    ),
]
LINES = (
    *("1 windows, kernels:20+statistics", "3 windows, kernels:20+statistics"),
    *("others' class mean, 20 kernels", "nearest, 20 kernels", "gradients, 20 kernels"),
    *("class means, 20 kernels", "0.05 of labels, least 1", "0.05 of labels, least 2"),
)
#: Added to deviations before their logarithm is taken.
_LEAST = 0.02

Windows = NDArray[np.float32]
Person = tuple[Windows, NDArray[np.int64]]


def standardised(people: Federation) -> list[Person]:
    """Return everybody's windows, each channel standardised over all, and labels."""
    xs = [np.asarray(person.x, np.float32) for person in people.clients.values()]
    every = np.concatenate(xs)
    mean, deviation = (f(every, axis=(0, 2), keepdims=True) for f in (np.mean, np.std))
    ys = [person.y for person in people.clients.values()]
    return [((x - mean) / deviation, y) for x, y in zip(xs, ys, strict=True)]


def features_back(people: list[Person], encoder: Encoder, n: int) -> str:
    """Return how many people's features of `n` windows came back, and how many were unrounded."""
    unrounded, back = [], []
    for i, (x, y) in enumerate(people):
        if len(x) < n:
            continue
        some = np.sort(np.random.default_rng(i).choice(len(x), n, replace=False))
        features = encoder.encode(x[some])
        sent = Rounded.of(statistics(features, y[some], y.max() + 1))
        exact = exact_features(sent)
        found = features_of_samples(sent, n)
        true = np.c_[np.full(n, UNIT), np.rint(features * UNIT)][:, exact]
        back.append(found is not None and sorted(map(tuple, found)) == sorted(map(tuple, true)))
        unrounded.append(len(exact) - 1)
    return f"{fmean(unrounded):16.0f}{sum(back):12d} of {len(back)}"


def shape(guess: Windows, true: Windows) -> float:
    """Return the mean correlation at the best shift in time."""
    a, b = (x - x.mean(2, keepdims=True) for x in (guess, true))
    lengths = np.sqrt((a**2).sum((1, 2)) * (b**2).sum((1, 2))) + 1e-9
    shifts = range(a.shape[2])
    at = np.stack([(np.roll(a, s, 2) * b).sum((1, 2)) / lengths for s in shifts])
    return float(at.max(0).mean())


def alike(*pairs: tuple[NDArray[np.floating], NDArray[np.floating]]) -> str:
    """Return correlations over all windows and channels."""
    return "".join(f"{np.corrcoef(a.ravel(), b.ravel())[0, 1]:11.3f}" for a, b in pairs)


def moments(x: Windows) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return channels' means, and logarithms of their deviations, each [n, channels]."""
    return x.mean(2), np.log(x.std(2) + _LEAST)


def windows_back(people: list[Person], encoder: KernelsEncoder, steps: int) -> None:
    """Print how near windows come that are made of the features of one of each person's."""
    half = len(people) // 2
    targets, others = people[:half], people[half:]
    theirs = np.concatenate([x[::5] for x, _ in others])
    labels = np.concatenate([y[::5] for _, y in others])
    known = encoder.encode(theirs)
    picked = [np.random.default_rng(i).integers(len(y)) for i, (_, y) in enumerate(targets)]
    true = np.stack([x[k] for (x, _), k in zip(targets, picked, strict=True)])
    of_class = [y[k] for (_, y), k in zip(targets, picked, strict=True)]
    features = encoder.encode(true)

    def nearest(of: NDArray[np.float32]) -> Windows:
        found: Windows = theirs[[np.square(known - one).sum(1).argmin() for one in of]]
        return found

    def by_gradients(of: NDArray[np.float32]) -> Windows:
        start = torch.from_numpy(nearest(of))
        found: Windows = windows_of(encoder, torch.from_numpy(of), start, steps).numpy()
        return found

    guesses = {
        "others' class mean": np.stack([theirs[labels == y].mean(0) for y in of_class]),
        "nearest": nearest(features),
        "gradients": by_gradients(features),
    }
    for name, guess in guesses.items():
        line = f"{shape(guess, true):10.3f}" + alike(
            *zip(moments(guess), moments(true), strict=True)
        )
        print(f"{name}, {encoder.size} kernels ".ljust(38), line, flush=True)
    classes = [x[y == k] for (x, y), k in zip(targets, of_class, strict=True)]
    means = np.stack([encoder.encode(x).mean(0) for x in classes])
    each = [moments(x) for x in classes]
    of_true = [np.stack([pair[i].mean(0) for pair in each]) for i in (0, 1)]
    found = alike(*zip(moments(by_gradients(means)), of_true, strict=True))
    print(f"class means, {encoder.size} kernels ".ljust(38), f"{'-':>10}{found}", flush=True)


def without_few(people: list[tuple[np.ndarray, ...]], classes: int, least: int) -> str:
    """Return macro F1 where a class of fewer samples is not sent, and the share of samples sent."""
    sums, kept = [], 0
    for x, y, *_ in people:
        enough = (np.bincount(y, minlength=classes) >= least)[y]
        sums.append(statistics(x[enough], y[enough], classes))
        kept += int(enough.sum())
    everybody, found = total(sums), []
    for (x, y, test_x, test_y), own in zip(people, sums, strict=True):
        mine = everybody - own + statistics(x, y, classes)
        head = personal_head(x, y, classes, [Shared(Scale.of(mine), mine)])
        said = (test_x @ head.weight.T + head.bias).argmax(1)
        found.append(f1_score(test_y, said, average="macro", labels=np.unique(test_y)))
    return f"{fmean(found):10.3f}{kept / sum(len(y) for _, y, *_ in people):12.2f}"


def main() -> None:
    given = read_arguments(
        TINY,
        data=f"{REAL}/wisdm-windows",
        clients=36,
        encoder=("kernels:250+statistics", "of the first table"),
        kernels=[100, 500],
        samples=[1, 2, 5, 20, 200],
        steps=400,
        train_shares=[0.01, 0.05],
        least=[1, 2, 5],
    )
    torch.set_num_threads(1)
    federation = first_people(given.data, given.clients)
    people = standardised(federation)
    summed = build_encoder(given.encoder, 0, people[0][0].shape[1:])
    assert summed is not None
    encoders = [KernelsEncoder(k, 0, people[0][0].shape[1:]) for k in given.kernels]
    print(f"{given.data}: {len(people)} people")
    print("sums over                        features unrounded   all windows' came back")
    for n in given.samples:
        line = features_back(people, summed, n)
        print(f"{n} windows, {given.encoder} ".ljust(36), line, flush=True)
    print("windows from features                       shape     levels   strength")
    for encoder in encoders:
        windows_back(people, encoder, given.steps)
    print("not sent: classes of fewer samples   macro F1   samples sent")
    for share in given.train_shares:
        features = encoded(federation, {"device": "cpu", "train-share": share})
        for least in given.least:
            line = without_few(features, len(federation.card.classes), least)
            print(f"{share:g} of labels, least {least} ".ljust(34), line, flush=True)


if __name__ == "__main__":
    main()
