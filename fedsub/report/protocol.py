"""How a run was done, in words: what another would need to do it again."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from fedsub.report.comparing import RESAMPLES
from fedsub.report.frame import Frame
from fedsub.report.reading import data_hash
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.methods.table import METHODS
from fedsub_core.options import option_values
from fedsub_core.version import build
from fedsub_server.results import encodings, spent_by_noise

Fact = tuple[str, str]
#: Keys that have a line of their own, or say only where files lie and how fast it goes.
_ELSEWHERE = {"data", "method", "beside", "rounds", "seed", "out", "folder", "threads", "split",
              "upload-encoding", "download-encoding"}  # fmt: skip
_SPLITS = {
    "auto": "blocked in time where windows overlap or stand in order of time, else at random in "
    "each class",
    "stratified": "at random in each class of each person",
    "blocked": "the last in time of each class of each person",
    "unseen": "some people are held out, and join in the last rounds",
}

_HELD_OUT = {
    "people": "a share of all",
    "capacity": "a share of the people of each capacity",
    "smallest": "all of the smallest capacity",
}


def protocol(frame: Frame, config: RunConfig | None) -> list[Fact]:
    """Return name and value of what decided the run; without run.toml, of what its database has."""
    flat: dict[str, Any] = dict(frame.traces[0].config) | (to_flat(config) if config else {})
    facts = [
        ("data", _data(frame, flat)),
        ("split", _split(flat) + _got(frame)),
        ("tested", _tested(frame)),
        ("average", "macro F1 is the mean over the classes in a person's test samples or "
         "predictions; means over people count everybody alike; people without test samples "
         "are left out"),
        ("seed", ", ".join(map(str, frame.seeds))),
        ("rounds", f"{_rounds(frame)}, evaluated {_every(flat.get('evaluate-every', 1))}"),
        ("learning", f"{flat.get('optimiser')}, rate {flat.get('lr')}, momentum "
         f"{flat.get('momentum')}, batches of {flat.get('batch-size')}, {_work(flat)}"
         f"; model {flat.get('model')}; standardised by "
         f"{flat.get('standardise')}"),
        ("other than the defaults", _changed(frame, flat)),
        ("encodings", encodings([replace(t.summary, method=t.method) for t in frame.traces])),
        ("intervals", f"95 %: of the curves' means Student t, over {frame.unit}; of differences a "
         f"paired percentile bootstrap of {RESAMPLES:,} resamples, over people"),
        ("versions", _versions(frame)),
    ]  # fmt: skip
    if spent := spent_by_noise([replace(t.summary, method=t.method) for t in frame.traces]):
        facts.insert(-1, ("noise", " ".join(spent)))
    if any(trace.summary.by_capacity for trace in frame.traces):
        facts.insert(1, ("devices", _capacities(flat)))
    return facts


def _data(frame: Frame, flat: dict[str, Any]) -> str:
    digest, people = data_hash(frame.traces[0].config)
    if not digest:
        return (
            "each device's own, which stayed there, so there is no hash of them; classes: "
            f"{', '.join(frame.classes) or 'not known'}"
        )
    name = str(flat.get("data", "unknown"))
    return f"{name}, {people} people, hash {digest} (BLAKE2b of the card and of everybody's arrays)"


def _split(flat: dict[str, Any]) -> str:
    kind = str(flat.get("split", "unknown"))
    share, kept = flat.get("test-share"), flat.get("train-share", 1.0)
    rest = "" if kept == 1.0 else f"; {kept} of the training samples kept"
    if lacking := flat.get("unlabelled", 0.0):
        rest += f"; {lacking} of the people have no labels of some classes, which are tested, too"
    if kind == "unseen":
        rest += f"; held out: {_HELD_OUT[flat.get('unseen-by', 'people')]}"
    return f"{kind}: {_SPLITS.get(kind, kind)}; {share} of each class is tested{rest}"


def _got(frame: Frame) -> str:
    """Return how many people got which split; "" where the run does not say."""
    kinds = Counter(note.split for note in frame.notes.splits.values())
    said = ", ".join(f"{n} {how}" for how, n in kinds.items())
    return f". Of {kinds.total()} people: {said}" if said else ""


def _tested(frame: Frame) -> str:
    models: dict[str, dict[str, None]] = {}
    for trace in frame.traces:
        models.setdefault(trace.summary.tested or "unknown", {})[trace.method] = None
    said = {
        "received": "the model as last received",
        "trained": "the model as last trained at home",
    }
    words = "; ".join(f"{said.get(k, k)}: {', '.join(names)}" for k, names in models.items())
    if any(trace.summary.best_by == "validation" for trace in frame.traces):
        words += (
            ". In every evaluation each person's is of its best round so far: of the greatest "
            "macro F1 on a validation part of the training samples, of equal ones of the smallest "
            "loss; who has too few samples for such a part is tested with the newest"
        )
    return words


def _rounds(frame: Frame) -> str:
    """Return how many rounds there were; of which method how many, where they differ."""
    each = {trace.method: trace.wanted for trace in frame.traces}
    if len(set(each.values())) == 1:
        return str(frame.traces[0].wanted)
    return ", ".join(f"{method} {rounds}" for method, rounds in each.items())


def _capacities(flat: Mapping[str, Any]) -> str:
    """Return how devices got the shares of the model that they hold."""
    anew = flat.get("capacity-mode") == "dynamic"
    when = "once, in equal parts"
    if anew:
        when = "anew in each round (the least of them throughout, where a method resizes no model)"
    return (
        "hold the share of the model that they say, or the data's card; else by capacities = "
        f"{flat.get('capacities')}, drawn from the seed {when}; everybody's: people_capacities.csv"
    )


def _work(flat: Mapping[str, Any]) -> str:
    """Return what a device does in a round, counted in steps or in epochs."""
    steps = flat.get("steps")
    return f"steps in a round {steps}" if steps else f"epochs in a round {flat.get('epochs')}"


def _every(rounds: object) -> str:
    return "in every round" if rounds == 1 else f"every {rounds} rounds"


def _changed(frame: Frame, flat: dict[str, Any]) -> str:
    """Return keys whose values are not the defaults, as they are written in run.toml."""
    defaults: dict[str, Any] = option_values(RunConfig())
    for name in frame.methods:
        if name in METHODS:
            own = option_values(METHODS[name].hyperparameters())
            defaults |= {f"{name}.{key}": value for key, value in own.items()}
    found = [
        f"{key} = {value}"
        for key, value in flat.items()
        if key in defaults and key not in _ELSEWHERE and value != defaults[key]
    ]
    return ", ".join(found) or "nothing"


def _versions(frame: Frame) -> str:
    runs = ", ".join(dict.fromkeys(trace.version for trace in frame.traces))
    names = ("torch", "flwr", "numpy", "matplotlib")
    here = ", ".join(f"{name} {version(name)}" for name in names)
    page = f"fedsub {build()}, Python {platform.python_version()}, {here}"
    return f"run by fedsub {runs}; this page by {page}"
