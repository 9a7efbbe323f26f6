"""Run folders with numbers that a test chose, without any training."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsub_core.config.run_config import RunConfig, dump_toml, to_flat
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

#: Macro F1 of a round and person, by its place.
Score = Callable[[int, int], float]
PEOPLE = ("ann & <bo>", "cy", "di", "eve")


def rows(
    round: int,
    people: tuple[str, ...],
    score: Score,
    loss: float | Callable[[int], float] = 1.0,
    examples: Callable[[int, int], int] = lambda round, place: 10,
    new: Callable[[int, int], float | None] = lambda round, place: None,
    target: bool = False,
) -> Iterator[MetricRow]:
    """One round's metrics, two classes; the first person lacks the second. Or of a target."""
    for place, person in enumerate(people):
        value = score(round, place)
        for metric in ("mae", "rmse") if target else ("macro_f1", "weighted_f1", "accuracy"):
            yield MetricRow(round, person, None, metric, value)
        if target:
            yield MetricRow(round, person, None, "r2", 1 - value / 10)
        of = loss(round) if callable(loss) else loss
        yield MetricRow(round, person, None, "loss", of)
        yield MetricRow(round, person, None, "examples", examples(round, place))
        yield MetricRow(round, person, None, "bytes_up_sent", 2048)
        yield MetricRow(round, person, None, "bytes_down_sent", 1024)
        if (came := new(round, place)) is not None:
            yield MetricRow(round, person, None, "f1_new", came)
        for label in range(0 if target else 2 if place else 1):
            yield MetricRow(round, person, label, "f1", value)


def weak(round: int, people: tuple[str, ...]) -> Iterator[MetricRow]:
    """Every second person's device holds a quarter of the model."""
    for place, person in enumerate(people):
        yield MetricRow(round, person, None, "capacity", 0.25 if place % 2 else 1.0)


def confused(round: int) -> Iterator[MetricRow]:
    """Everybody has class 0, of which a fourth is taken for class 1; three people have class 1."""
    for label, people, shares in ((0, 4, {0: 0.75, 1: 0.25}), (1, 3, {1: 1.0})):
        yield MetricRow(round, "", label, "confusion_people", people)
        for predicted, share in shares.items():
            yield MetricRow(round, "", label, f"confusion.{predicted}", share)


def mixtures(round: int, people: tuple[str, ...]) -> Iterator[MetricRow]:
    """Nobody believes the own head; the first person gains for certain, the last loses."""
    for place, person in enumerate(people):
        weights = {"local": 0.25 * place, "fused": 1 - 0.25 * place, "head": 0.0}
        gain = 0.2 - 0.1 * place
        said = {"gain_over_own": gain, "gain_over_own_low": gain - 0.08}
        said |= {"gain_over_own_high": gain + 0.08}
        said |= {f"weight_{name}": weight for name, weight in weights.items()}
        yield from (MetricRow(round, person, None, name, value) for name, value in said.items())


def own_heads(f1: Callable[[int], float]) -> Callable[..., Iterator[MetricRow]]:
    """Return what everybody's own heads reach, by the person's place."""

    def also(round: int, people: tuple[str, ...]) -> Iterator[MetricRow]:
        for place, person in enumerate(people):
            for name, value in zip(OWN_HEADS, (f1(place), f1(place), 0.1), strict=True):
                yield MetricRow(round, person, None, name, value)

    return also


def make_run(
    folder: Path,
    scores: Mapping[str, Score],
    rounds: int = 3,
    done: Mapping[str, int] | None = None,
    people: tuple[str, ...] = PEOPLE,
    also: Callable[[int, tuple[str, ...]], Iterator[MetricRow]] | None = None,
    keys: Mapping[str, Any] | None = None,
    **given: object,
) -> Path:
    """Write run.toml and a database for each method of `scores`; `done` rounds, all unless said.

    `keys` are of the configuration.

    A method of -1 rounds has not begun; FedSub has clusters, FedCLAR groups from round 2 on.
    """
    first, *others = scores
    own: dict[str, Any] = {"rounds": rounds, "lr": 0.02, "data": "/gone", **(keys or {})}
    config = RunConfig(method=first, beside=",".join(others), **own)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.toml").write_text(dump_toml(config))
    data = {"data: card": "00", **{f"data: client {person}": "11" for person in people}}
    for name, score in scores.items():
        last = (done or {}).get(name, rounds)
        if last < 0:
            continue
        (folder / name).mkdir(exist_ok=True)
        flat = {k: v for k, v in to_flat(config).items() if "." not in k or k.startswith(name)}
        with RunDatabase(folder / name / "state.db", {**flat, **data}) as database:
            for round in range(1, last + 1):
                found = list(rows(round, people, score, **given))  # type: ignore[arg-type]
                if name == "fedsub":
                    found += [
                        MetricRow(round, "", label, "clusters", 2 + label) for label in (0, 1)
                    ]
                    found += [
                        MetricRow(round, p, label, "cluster", i * (1 + label) // len(people))
                        for label in (0, 1)
                        for i, p in enumerate(people[label:], label)
                    ]
                if name == "fedclar" and round > 1:
                    found += [
                        MetricRow(round, p, None, "group", i % 2) for i, p in enumerate(people)
                    ]
                if also is not None:
                    found += also(round, people)
                if name == "local":
                    found += confused(round)
                if name == "fedsub-gated":
                    found += mixtures(round, people)
                database.commit(round, {}, found)
    return folder
