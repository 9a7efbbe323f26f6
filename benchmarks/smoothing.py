"""Write `benchmarks/results/smoothing.csv`: a forward filter's gain on days of test windows.

The windows of these federations are not in order of time. So each person's test windows are put
into made days: a class lasts an exponential time, then another one of the person's classes follows.
Windows do not overlap, and each stands for its whole length. Real days have other orders of
classes, and windows at a change that hold two of them. The filter is told one mean stay for all
days, also where classes last longer. The personal models are those of `fedsub-ridge`.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from script import REAL, put_rows, read_arguments
from sklearn.metrics import f1_score

import fedsub
from fedsub.engines.simulation import split_clients
from fedsub.recordings.smoothing import ForwardFilter
from fedsub.report.comparing import interval
from fedsub_core.config.run_config import read_config
from fedsub_core.data.sources import WATCH, load_federation

METHOD, SHARE = "fedsub-ridge", 0.05
#: Windows of a made day.
WINDOWS = 1000
TINY = ["--only", WATCH, "--stays", "10", "60", "--seeds", "1"]
LINES = ("watch",)


def day(y: NDArray[np.int64], stay: float, stream: np.random.Generator) -> NDArray[np.int64]:
    """Return the test windows of a made day, indices [WINDOWS].

    Parameters
    ----------
    y : classes of the person's test windows.
    stay : mean windows for which a class lasts.
    """
    classes, made = np.unique(y), list[int]()
    now = int(stream.integers(len(classes)))
    while len(made) < WINDOWS:
        count = max(1, round(stream.exponential(stay)))
        made += stream.choice(np.flatnonzero(y == classes[now]), count).tolist()
        now = (now + int(stream.integers(1, max(2, len(classes))))) % len(classes)
    return np.array(made[:WINDOWS])


def scores(name: str, stays: list[float], smooth: float, seed: int) -> NDArray[np.float64]:
    """Return macro F1 by person, stay, and whether smoothed: [people, stays, 2]."""
    with tempfile.TemporaryDirectory() as out:
        share: Any = {} if name == WATCH else {"train_share": SHARE}
        made = fedsub.run(name, METHOD, beside="", seed=seed, out=out, progress=False, **share)
        config = read_config(Path(made.folder) / "run.toml")
        federation = load_federation(name)
        settings = config.device_settings(METHOD)
        window_s = federation.card.window_s or 1.0
        found = []
        for person in split_clients(settings.split, federation, config.capacity_settings):
            x, y = np.asarray(person.test_x), np.asarray(person.test_y)
            shares = made.model(person.client)(x)
            stream = np.random.default_rng((seed, *person.client.encode()))
            of_person = []
            for stay in stays:
                order = day(y, stay / window_s, stream)
                filter = ForwardFilter(shares.shape[1], smooth)
                smoothed = filter.smoothed(shares[order], np.arange(WINDOWS) * np.float64(window_s))
                of_person.append([_f1(y[order], s) for s in (shares[order], smoothed)])
            found.append(of_person)
    return np.array(found)


def _f1(y: NDArray[np.int64], shares: NDArray[np.float32]) -> float:
    return float(f1_score(y, shares.argmax(1), labels=np.unique(y), average="macro"))


def main() -> None:
    """Make the days, print a line for each data set and stay, and write all of them."""
    args = read_arguments(
        TINY,
        data=Path(REAL),
        only=["wisdm-windows", "uci-har"],
        stays=([10.0, 60.0, 300.0], "s"),
        smooth=(10.0, "the filter's mean stay, s"),
        seeds=(3, "how many, from 0 on"),
        csv=Path,
    )
    for name in args.only:
        data = name if name == WATCH else str(args.data / name)
        of_seed = [scores(data, args.stays, args.smooth, seed) for seed in range(args.seeds)]
        of_person = np.mean(of_seed, axis=0)
        rows = []
        for i, stay in enumerate(args.stays):
            plain, smoothed = of_person[:, i].T
            low, high = interval(smoothed - plain) or (np.nan, np.nan)
            rows.append(
                {
                    "data": name,
                    "class lasts, s": f"{stay:g}",
                    "--smooth, s": f"{args.smooth:g}",
                    "people": str(len(plain)),
                    "seeds": str(args.seeds),
                    "each window alone": f"{plain.mean():.3f}",
                    "smoothed": f"{smoothed.mean():.3f}",
                    "gain": f"{(smoothed - plain).mean():+.3f}",
                    "low": f"{low:+.3f}",
                    "high": f"{high:+.3f}",
                }
            )
            print(*rows[-1].values(), flush=True)
        put_rows(args.csv, rows, ("data", "class lasts, s", "--smooth, s"))


if __name__ == "__main__":
    main()
