"""A run's folder, finished or not, as a frame."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fedsub.report.frame import ConfusionRow, Frame, Grid, PrototypePlaces, Trace
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.card import Card, read_card
from fedsub_core.data.fingerprint import CARD_KEY, card_digest
from fedsub_core.data.watch import CARD
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.metric_names import (
    CONFUSION,
    CONFUSION_PEOPLE,
    PROTOTYPE_RATIO,
    PROTOTYPE_X,
    PROTOTYPE_Y,
)
from fedsub_core.metrics import MetricRow
from fedsub_core.options import Value
from fedsub_server.data_notes import read_notes
from fedsub_server.method_summary import MethodSummary
from fedsub_server.results import method_summaries
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase

#: Metrics over people that a page shows; `examples` says who was tested.
TESTED = ("macro_f1", "weighted_f1", "accuracy", "mae", "rmse", "r2", "loss", "examples")
BYTES = ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent")


def read_run(folder: Path) -> Frame:
    """Return the frame of a run's folder; of a method that has not begun, only its name.

    Raises RunError if the folder holds no method's database, or one that cannot be read.
    """
    summaries = {summary.method: summary for summary in method_summaries(folder)}
    config = run_config(folder)
    wanted = config.methods if config is not None else ()
    with ExitStack() as stack:
        dbs = {
            name: stack.enter_context(RunDatabase(folder / name / DATABASE_FILE))
            for name in summaries
        }
        traces = [_trace(folder, dbs[name], one, config) for name, one in summaries.items()]
        agreed = {db.classes() for db in dbs.values()} - {()}
    # Methods of other devices, in a folder that was used again: no name is right for all.
    classes = agreed.pop() if len(agreed) == 1 else ()
    missing = tuple(name for name in wanted if name not in summaries)
    kept = {trace.config.get(CARD_KEY) for trace in traces}
    card = None if config is None else run_card(config, kept, classes)
    explained = card.explained if card else ""
    return Frame(traces, classes, missing, notes=read_notes(folder), explained=explained)


def run_config(folder: Path) -> RunConfig | None:
    """Return the run's configuration; None where it is missing or of another version."""
    try:
        return read_config(folder / RUN_FILE)
    except ConfigError:
        return None


def data_hash(config: Mapping[str, Value]) -> tuple[str, int]:
    """Return a digest of all digests of the run's data, and of how many people; "" for none."""
    lines = sorted(f"{key}={value}" for key, value in config.items() if key.startswith("data: "))
    if not lines:
        return "", 0
    digest = hashlib.blake2b("\n".join(lines).encode(), digest_size=12).hexdigest()
    return digest, sum(line.startswith("data: client ") for line in lines)


def _trace(
    folder: Path, db: RunDatabase, summary: MethodSummary, config: RunConfig | None
) -> Trace:
    flat: dict[str, Value] = json.loads(db.meta().get("config", "{}"))
    rows = list(db.metrics())
    untested = {(r.round, r.client) for r in rows if r.metric == "examples" and r.value == 0}
    names = {r.metric for r in rows if r.client and r.label is None} | set(TESTED)
    people: dict[str, dict[tuple[int, str], float]] = {name: {} for name in names}
    f1: dict[int, dict[tuple[int, str], float]] = {}
    clusters: dict[tuple[int, str], float] = {}
    members: dict[int, dict[tuple[int, str], float]] = {}
    for r in rows:
        if not r.client:
            if r.metric == "clusters" and r.label is not None:
                clusters[r.round, f"{r.label:04d}"] = r.value
        elif r.metric in (*TESTED, "f1") and (r.round, r.client) in untested:
            continue
        elif r.label is None:
            people[r.metric][r.round, r.client] = r.value
        elif r.metric == "cluster":
            members.setdefault(r.label, {})[r.round, r.client] = r.value
        elif r.metric == "f1":
            f1.setdefault(r.label, {})[r.round, r.client] = r.value
    sent = {name: db.mean(name) for name in BYTES}
    rounds = int(flat.get("rounds", 0)) if config is None else config.rounds
    return Trace(
        run=folder.resolve().name,
        seed=int(flat.get("seed", 0)),
        method=summary.method,
        rounds=summary.rounds,
        wanted=rounds or summary.rounds,
        summary=summary,
        people={name: Grid.of(cells) for name, cells in people.items()},
        f1={label: Grid.of(cells) for label, cells in sorted(f1.items())},
        clusters=Grid.of(clusters),
        members={label: Grid.of(cells) for label, cells in sorted(members.items())},
        bytes={name: mean for name, mean in sent.items() if mean is not None},
        config=flat,
        version=db.trained_by(),
        confusion=_confusion(rows),
        prototypes=_prototypes(rows),
        model=db.model(),
    )


def _prototypes(rows: list[MetricRow]) -> dict[int, PrototypePlaces]:
    """Return where prototypes lie in the first and in the last round in which it was noted."""
    there = {r.round for r in rows if r.metric == PROTOTYPE_X}
    found = {}
    for round in sorted({min(there), max(there)}) if there else ():
        mine = [r for r in rows if r.round == round and r.label is not None]
        x, y = (
            {(r.client, r.label): r.value for r in mine if r.metric == metric}
            for metric in (PROTOTYPE_X, PROTOTYPE_Y)
        )
        ratio = (r.value for r in rows if r.round == round and r.metric == PROTOTYPE_RATIO)
        found[round] = PrototypePlaces(
            np.array([label for _, label in x]),
            np.array([(x[key], y[key]) for key in x]),
            np.array([not client for client, _ in x]),
            next(ratio, math.nan),
        )
    return found


def _confusion(rows: list[MetricRow]) -> dict[int, ConfusionRow]:
    """Return the confusion matrix of the last round that was evaluated."""
    last = max((r.round for r in rows if r.metric == "macro_f1"), default=None)
    people: dict[int, int] = {}
    shares: dict[int, dict[int, float]] = {}
    for r in rows:
        if r.round != last or r.client or r.label is None:
            continue
        if r.metric == CONFUSION_PEOPLE:
            people[r.label] = int(r.value)
        elif r.metric.startswith(CONFUSION):
            predicted = int(r.metric.removeprefix(CONFUSION))
            shares.setdefault(r.label, {})[predicted] = r.value
    return {true: ConfusionRow(people[true], shares[true]) for true in sorted(people)}


def run_card(config: RunConfig, kept: Collection[object], classes: Sequence[str]) -> Card | None:
    """Return the data's card if it can be read and is still the run's.

    Parameters
    ----------
    kept : the card's digests in the run's databases; None of a deployed run, whose data stay on the
        devices: what the server's configuration calls data may be others.
    classes : names that were agreed on in the handshake.
    """
    try:
        card = CARD if config.data == CARD.name else read_card(config.data)
    except DataError:  # moved since, or never here: a deployed run
        return None
    digest = card_digest(card)
    same = {one or digest for one in kept} == {digest} and list(card.classes) == list(classes)
    return card if same else None
