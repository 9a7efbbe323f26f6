"""How a run was done, in words: what another would need to do it again."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from fedsub.report.comparing import RESAMPLES
from fedsub.report.frame import Frame
from fedsub.report.reading import data_hash
from fedsub_core.config.idle import idle
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.methods.table import METHODS
from fedsub_core.options import option_values
from fedsub_core.version import build
from fedsub_server.method_runs import MethodRun, alike, method_run
from fedsub_server.methods_paragraph import split_in_words, split_people
from fedsub_server.tables import encodings, spent_by_noise

Fact = tuple[str, str]
#: Keys that have a line of their own, or say only where files lie and how fast it goes.
_ELSEWHERE = {"data", "method", "beside", "rounds", "seed", "out", "folder", "threads", "split",
              "upload-encoding", "download-encoding"}  # fmt: skip

#: How scores are measured, by the metric that people are compared by.
_SCORED = {
    "macro_f1": "macro F1 is the mean over the classes in a person's test samples or predictions",
    "mae": "errors are in the target's unit; R2 is 1 minus the squared error divided by the "
    "variance of a person's test samples",
}


def protocol(frame: Frame, config: RunConfig | None) -> list[Fact]:
    """Return name and value of what decided the run; without run.toml, of what its database has."""
    flat: dict[str, Any] = dict(frame.traces[0].config) | (to_flat(config) if config else {})
    runs, got = runs_of(frame, config), split_people(frame.notes)
    facts = [
        ("data", _data(frame, flat)),
        ("split", split_in_words(flat) + (f". {got}" if got else "")),
        ("tested", _tested(frame)),
        ("average", f"{_SCORED[frame.score]}; means over people count everybody alike; people "
         "without test samples are left out"),
        ("seed", ", ".join(map(str, frame.seeds))),
        ("rounds", f"{_rounds(frame)}, evaluated {_every(flat.get('evaluate-every', 1))}"),
        ("model", _each(runs, lambda run: run.model_words)),
        ("learning", _each(runs, lambda run: run.rule)),
        ("standardised by", str(flat.get("standardise"))),
        *([("begun with the models of", str(flat["from-run"]))] if flat.get("from-run") else []),
        ("other than the defaults", _changed(frame, flat, config)),
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


def runs_of(frame: Frame, config: RunConfig | None) -> list[MethodRun]:
    """Return how each method ran, with the seeds of all its runs."""
    found: dict[str, MethodRun] = {}
    for trace in frame.traces:
        method = trace.summary.method
        one = method_run(trace.method, method, trace.config, config, trace.model, trace.version)
        seeds = tuple(other.seed for other in frame.of(trace.method))
        found.setdefault(trace.method, replace(one, rounds=trace.wanted, seeds=seeds))
    return list(found.values())


def _each(runs: Sequence[MethodRun], words: Callable[[MethodRun], str]) -> str:
    """Return a sentence on each method; methods with equal sentences share one."""
    found = alike(runs, words)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in found.items())


def _data(frame: Frame, flat: dict[str, Any]) -> str:
    digest, people = data_hash(frame.traces[0].config)
    if not digest:
        return (
            "each device's own, which stayed there, so there is no hash of them; classes: "
            f"{', '.join(frame.classes) or 'not known'}"
        )
    name = str(flat.get("data", "unknown"))
    return f"{name}, {people} people, hash {digest} (BLAKE2b of the card and of everybody's arrays)"


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
            ". In every evaluation each person's is of its best round so far, by "
            f"{frame.of_task.title} on a validation part of the training samples, of equal ones of "
            "the smallest loss; who has too few samples for such a part is tested with the newest"
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


def _every(rounds: object) -> str:
    return "in every round" if rounds in (0, 1) else f"every {rounds} rounds"


def _changed(frame: Frame, flat: dict[str, Any], config: RunConfig | None) -> str:
    """Return keys whose values are not the defaults, as they are written in run.toml."""
    defaults: dict[str, Any] = option_values(RunConfig())
    for name in frame.methods:
        if name in METHODS:
            own = option_values(METHODS[name].hyperparameters())
            defaults |= {f"{name}.{key}": value for key, value in own.items()}
    to_no_effect = idle(config) if config is not None else {}
    found = [
        f"{key} = {value}" + (" (does nothing here)" if key in to_no_effect else "")
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
