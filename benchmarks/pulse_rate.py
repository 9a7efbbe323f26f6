"""Write `results/pulse-rate.csv`: the pulse rate, predicted without the signal that shows it.

The target is derived, not measured: of each window of 60 s, every 30 s, the frequency from 0.7 to 3
Hz in which BVP has most power, where it stands out. BVP is then thrown away: 17 features of EDA,
temperature and acceleration are left. A fold tests another stretch of each person's time, with a
gap. Learning rates of trained models are those with the least error on the tested samples
themselves, which is in their favour. `--out` writes the federation.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from script import REAL, Known, put_rows, read_arguments
from wesad_wrist import recordings

import fedsub
from fedsub.engines.simulation import split_clients
from fedsub.report.comparing import interval
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_core.data.target import Target
from fedsub_data.preparing.wesad.recording import Signal

Floats = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
TINY = ["--clients", "2", "--folds", "2", "--rounds", "2"]
LINES = ("windows:", "own mean", "mixture")
#: A window's length and the time to the next, s.
WINDOW_S, STEP_S = 60.0, 30.0
#: A pulse lies in this band; it stands out where so large a share of the band's power is within so
#: many beats a minute of the peak.
BAND_HZ, NEAR, LEAST_SHARE = (0.7, 3.0), 6.0, 0.4
OTHERS, NUMBERS = ("EDA", "TEMP", "ACC"), ("mean", "deviation", "least", "greatest", "slope")
PULSE = Target("pulse rate", "1/min", 40.0, 180.0)
MEAN = "own mean"
#: Rows of the table: the question that each answers, and its run.
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "own ridge": ("alone", {"method": "fedsub-ridge", "heads": "own"}),
    "everybody's ridge": ("everybody", {"method": "fedsub-ridge", "heads": "everybody"}),
    "mixture": ("mixture", {"method": "fedsub-ridge"}),
    "everybody's model": ("everybody", {"method": "fedavg"}),
    "own model": ("alone", {"method": "local"}),
    "ditto": ("mixture", {"method": "ditto"}),
}
#: Learning rates of trained models; at 0.5 most people's diverge, and a run ends.
RATES = (0.002, 0.01, 0.02, 0.05, 0.1, 0.2)


def pulse_rates(bvp: Signal) -> tuple[Floats, BoolArray]:
    """Return the pulse rate of each window, 1/min, and whether it stands out."""
    windows = cut(bvp)
    windows = (windows - windows.mean(1, keepdims=True)) * np.hanning(windows.shape[1])
    power = np.abs(np.fft.rfft(windows, 4 * windows.shape[1])) ** 2
    rate = np.fft.rfftfreq(4 * windows.shape[1], 1 / bvp.rate_hz) * 60
    band = (rate >= 60 * BAND_HZ[0]) & (rate <= 60 * BAND_HZ[1])
    peak = np.where(band, power, 0).argmax(1)
    near = np.abs(rate - rate[peak][:, None]) <= NEAR
    share = (power * near).sum(1) / power[:, band].sum(1)
    inside = (rate[peak] > 60 * BAND_HZ[0] + 1) & (rate[peak] < 60 * BAND_HZ[1] - 1)
    return rate[peak], (share >= LEAST_SHARE) & inside


def cut(signal: Signal) -> Floats:
    """Return the windows of a signal [n] or of its magnitude [n, 3], one a row."""
    values = np.asarray(signal.values, np.float64)
    values = values if values.ndim == 1 else np.linalg.norm(values, axis=1)
    width, step = round(WINDOW_S * signal.rate_hz), round(STEP_S * signal.rate_hz)
    return sliding_window_view(values, width)[::step]


def features(signal: Signal) -> Floats:
    """Return five numbers of each window, :data:`NUMBERS`."""
    x = cut(signal)
    t = np.linspace(-0.5, 0.5, x.shape[1])
    slope = (x - x.mean(1, keepdims=True)) @ t / (t @ t)
    return np.stack([x.mean(1), x.std(1), x.min(1), x.max(1), slope], 1)


def federation(folder: Path, clients: int) -> Federation:
    """Return everybody's windows with the pulse rate as target and without BVP."""
    people, made, dropped = recordings(folder), {}, 0
    for number, recording in list(people.items())[: clients or None]:
        rate, clear = pulse_rates(recording.signals["BVP"])
        x = [features(recording.signals[name]) for name in OTHERS]
        length = min(len(rate), *map(len, x))
        x.append(np.abs(np.diff(cut(recording.signals["ACC"]), axis=1)).mean(1)[:, None])
        t, kept = STEP_S * np.arange(length, dtype=np.float64), np.flatnonzero(clear[:length])
        rows = np.concatenate([one[:length] for one in x], 1)[kept].astype(np.float32)
        name = f"{number:02d}"
        made[name] = ClientData(name, rows, rate[kept], t[kept])
        dropped += length - len(kept)
    windows = sum(len(one.y) for one in made.values())
    print(f"windows: {windows:,}, without a clear pulse {dropped:,}")
    card = Card(
        name="wesad-pulse-rate",
        task="pulse rate, derived from BVP",
        classes=(),
        features=(*(f"{name} {number}" for name in OTHERS for number in NUMBERS), "ACC change"),
        units="uS, degrees Celsius, 1/64 g",
        window_s=WINDOW_S,
        overlap=1 - STEP_S / WINDOW_S,
        time_ordered=True,
        target=PULSE,
    )
    return Federation(card, made)


def own_means(people: Federation, fold: str) -> pd.DataFrame:
    """Return the errors of each person's mean over its training samples."""
    rows = []
    for one in split_clients(SplitSettings(fold=fold), people):
        away = PULSE.half * (one.test_y - one.train_y.mean())
        spread = PULSE.half * one.test_y.std()
        rmse = float(np.sqrt((away**2).mean()))
        r2 = 1 - (rmse / spread) ** 2 if spread else np.nan
        rows.append({"person": one.client, "mae": np.abs(away).mean(), "rmse": rmse, "r2": r2})
    return pd.DataFrame(rows)


def reached(people: Federation, keys: dict[str, Any], folds: int, rounds: int) -> pd.DataFrame:
    """Return the errors of each person in each fold."""
    found = []
    for number in range(1, folds + 1):
        with tempfile.TemporaryDirectory() as out:
            heads = {"fedsub_ridge": {"heads": keys["heads"]}} if "heads" in keys else {}
            trained = {} if keys["method"] == "fedsub-ridge" else {"lr": keys["lr"], "hidden": "64"}
            run = fedsub.run(
                people,
                keys["method"],
                rounds if trained else 4,
                beside="",
                loss="squared",
                fold=f"{number}/{folds}",
                evaluate_every=rounds if trained else 4,
                out=out,
                progress=False,
                **heads,
                **trained,
            )
            found.append(run.people.assign(fold=number))
    # No mean leaves out a model that diverged.
    return pd.concat(found).fillna({"mae": np.inf, "rmse": np.inf})


def row_of(name: str, question: str, errors: pd.DataFrame, lr: float | None) -> dict[str, object]:
    """Return a row of results: means over people, of each over folds."""
    people = errors.groupby("person")[["mae", "rmse", "r2"]].mean()
    ends = interval(people["mae"].to_numpy()) or ("", "")
    low, high = (f"{end:.2f}" if isinstance(end, float) else end for end in ends)
    return {
        "row": name,
        "question": question,
        "people": len(people),
        "mae": f"{people['mae'].mean():.2f}",
        "mae_low": low,
        "mae_high": high,
        "rmse": f"{people['rmse'].mean():.2f}",
        "r2": f"{people['r2'].mean():.2f}",
        "lr": "" if lr is None else f"{lr:g}",
    }


def main() -> None:
    args = read_arguments(
        TINY,
        data=Path(REAL, "wesad-wrist-raw"),
        clients=(0, "the first ones alone; 0 = all"),
        folds=4,
        rounds=20,
        only=Known(ROWS),
        csv=Path,
        out=Path,
    )
    people = federation(args.data, args.clients)
    if args.out is not None:
        write_federation(args.out, people)
    folds = [own_means(people, f"{k}/{args.folds}") for k in range(1, args.folds + 1)]
    rows = [row_of(MEAN, "alone", pd.concat(folds), None)]
    for name in args.only:
        question, keys = ROWS[name]
        rates = (None,) if keys["method"] == "fedsub-ridge" else RATES
        tried = {lr: reached(people, keys | {"lr": lr}, args.folds, args.rounds) for lr in rates}
        best = min(tried, key=lambda lr: tried[lr]["mae"].mean())
        rows.append(row_of(name, question, tried[best], best))
        put_rows(args.csv, rows, ("row",), [(one,) for one in (MEAN, *ROWS)])
    for row in rows:
        ends = f" ({row['mae_low']} to {row['mae_high']})" if row["mae_low"] else ""
        print(f"{row['row']:18} MAE {row['mae']}{ends}, R2 {row['r2']}")


if __name__ == "__main__":
    main()
