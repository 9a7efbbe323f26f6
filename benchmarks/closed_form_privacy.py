"""What sums tell of a person's windows, and what noise on them costs.

Membership: of a window that was summed nothing is new to the sums (``z^T (A + I)^-1 z``, below 1),
of another window of the same person more is; area under the curve (0.5 is guessing), mean over
people. By one person's own sums, which the server sees, and by everybody's, which all devices see.
Then macro F1 where everybody's sums leave the server with noise: of heads that people mix, of
everybody's heads alone, and of own heads alone.
"""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
from script import REAL, put_rows, read_arguments
from sklearn.metrics import roc_auc_score
from trained import first_people, metrics_of

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sums import Statistics, statistics, total
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.stacks import inputs
from fedsub_core.options import Value

TINY = [
    *("--data", f"{REAL}/wisdm-windows", "--clients", "3", "--train-shares", "0.2"),
    *("--encoders", "kernels:5", "--noises", "0", "1"),
]
LINES = ("0.2 ", "kernels:5, noise 0 ", "kernels:5, noise 1 ")
METHOD = "fedsub-ridge"


def encoded(people: Federation, keys: dict[str, Value]) -> list[tuple[np.ndarray, ...]]:
    """Return everybody's features as a run makes them: trained x and y, tested x and y."""
    config = read_config(None, {**keys, "method": METHOD, "beside": "", "rounds": 1})
    grid, strategy = build_grid(config, METHOD, people), build_strategy(config, METHOD)
    strategy.start(grid)
    found = []
    for cohort in grid.cohorts:
        train, test = cohort.data.at(1, strategy.population.agreed.scaling)
        for i, (n, m) in enumerate(zip(train.counts, test.counts, strict=True)):
            parts = inputs(train.x[i, :n]), train.y[i, :n], inputs(test.x[i, :m]), test.y[i, :m]
            found.append(tuple(part.numpy() for part in parts))
    grid.close()
    return found


def novelty(sums: Statistics, scale: Scale, x: np.ndarray) -> np.ndarray:
    """Return how much of each sample [n, D] is new to sums; below 1 where they hold it."""
    a, _ = scale.moments(sums)
    z = scale(x)
    new: np.ndarray = np.einsum("ij,ji->i", z, np.linalg.solve(a + np.eye(len(a)), z.T))
    return new


def membership(people: list[tuple[np.ndarray, ...]], classes: int) -> tuple[float, float]:
    """Return areas under the curve by people's own sums, and by everybody's."""
    sums = [statistics(x, y, classes) for x, y, *_ in people]
    everybody = total(sums)
    scale, own, shared = Scale.of(everybody), [], []
    for (x, _, other, _), mine in zip(people, sums, strict=True):
        labels = np.r_[np.ones(len(x)), np.zeros(len(other))]
        both = np.concatenate([x, other])
        own.append(roc_auc_score(labels, -novelty(mine, scale, both)))
        shared.append(roc_auc_score(labels, -novelty(everybody, scale, both)))
    return fmean(own), fmean(shared)


def macro_f1(people: Federation, keys: dict[str, Value]) -> float:
    """Return the mean over people after three rounds."""
    chosen = {**keys, "method": METHOD, "beside": "", "rounds": 3, "evaluate-every": 3}
    rows = metrics_of(read_config(None, chosen), people)
    return fmean(row.value for row in rows if row.metric == "macro_f1" and row.label is None)


def main() -> None:
    given = read_arguments(
        TINY,
        data=f"{REAL}/wisdm-windows",
        clients=36,
        train_shares=[0.05, 0.2, 1],
        encoders=["kernels:10", "auto"],
        noises=[0, 0.1, 1, 4],
        out=(Path, "a folder, where both tables are written"),
    )
    people = first_people(given.data, given.clients)
    print(f"{given.data}: {len(people.clients)} people")
    shown = list(memberships(people, given.train_shares))
    noised = list(noises(people, given.encoders, given.noises))
    if given.out:
        put_rows(given.out / "closed-form-privacy.csv", shown, ["labels kept"])
        put_rows(given.out / "closed-form-noise.csv", noised, ["encoder, noise"])


def memberships(people: Federation, shares: list[float]) -> Iterator[dict[str, str]]:
    """Yield and print a row of membership for each share of the labels."""
    print("labels kept   membership by own sums   by everybody's")
    for share in shares:
        windows = encoded(people, {"device": "cpu", "train-share": share})
        own, shared = membership(windows, len(people.card.classes))
        print(f"{share:g} ".ljust(13), f"{own:22.3f}{shared:17.3f}", flush=True)
        row = {"labels kept": "all" if share == 1 else f"{100 * share:g} %"}
        row |= {"by own sums": f"{own:.3f}", "by everybody's": f"{shared:.3f}"}
        yield row


def noises(people: Federation, encoders: list[str], given: list[float]) -> Iterator[dict[str, str]]:
    """Yield and print a row of macro F1 for each encoder and noise."""
    print("noise on sums, all labels   epsilon at 1e-5   macro F1 mixed   everybody's   own")
    for encoder in encoders:
        of: dict[str, Value] = {"device": "cpu", "encoder": encoder}
        own = macro_f1(people, of | {f"{METHOD}.heads": "own"})
        for noise in given:
            with_noise = {**of, f"{METHOD}.noise": noise}
            mixed = macro_f1(people, with_noise)
            shared = macro_f1(people, with_noise | {f"{METHOD}.heads": "everybody"})
            epsilon = spent_epsilon(noise, 1, 1e-5) if noise else np.inf
            name = f"{encoder}, noise {noise:g}"
            print(
                f"{name.ljust(27)}{epsilon:16.1f}{mixed:17.3f}{shared:14.3f}{own:6.3f}", flush=True
            )
            row = {"encoder, noise": f"{encoder}, {noise:g}"}
            row |= {"epsilon at 1e-5": f"{epsilon:.1f}" if noise else "-", "mixed": f"{mixed:.3f}"}
            yield row | {"everybody's": f"{shared:.3f}", "own": f"{own:.3f}"}


if __name__ == "__main__":
    main()
