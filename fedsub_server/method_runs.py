"""Runs of methods: the resolved model, and the rule by which each was trained or solved."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedsub_core.config.run_config import RunConfig, default
from fedsub_core.encoders.module_names import NamedModule
from fedsub_core.encoders.names import KERNELS, NONE, PER_KERNEL, parse_encoder
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import METHODS
from fedsub_core.models.record import ModelRecord
from fedsub_core.options import describe, option_values
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

#: Layers of a model that are written out; of a longer one the first and the last of these.
MOST_LAYERS = 24
#: Settings of training that are said where they are not at their defaults.
_SELDOM = {
    "lr-decay": "rate times {} from round to round",
    "weight-decay": "L2 penalty {}",
    "clip-norm": "gradients up to a norm of {}",
    "schedule": "rate by {}",
    "augment": "samples changed by {}",
    "precision": "passes in {}",
}


@dataclass(frozen=True)
class MethodRun:
    """The run of a method: its settings, its model and its release.

    Parameters
    ----------
    name, method : the name in tables, and the card's.
    config : flat keys of its start, digests of the data among them.
    model : None where the release that ran it kept none.
    version : the release that ran it.
    """

    name: str
    method: str
    config: Mapping[str, Any]
    rounds: int
    seeds: tuple[int, ...]
    model: ModelRecord | None
    version: str

    @cached_property
    def card(self) -> MethodCard | None:
        """The method's card; None where its package is not installed here."""
        return METHODS.get(self.method)

    @cached_property
    def hyper(self) -> Any:
        """The hyperparameters with which it began, of a card that is there."""
        assert self.card is not None
        kind, prefix = self.card.hyperparameters, f"{self.method}."
        own = {option.key: option.default for option in describe(kind)}
        given = {key.removeprefix(prefix): value for key, value in self.config.items()}
        own |= {key: given[key] for key in own.keys() & given.keys()}
        return kind(**{key.replace("-", "_"): value for key, value in own.items()})

    @property
    def solves(self) -> bool:
        """Whether the model is solved for, and not trained."""
        return self.card is not None and not self.card.trains

    @property
    def rule(self) -> str:
        """The rule of a round on a device: the method's own, or training in steps, in words."""
        flat = self.config
        if self.card is not None:
            if rule := self.card.training.rule(self.hyper, float(flat.get("lr", 0.0))):
                return rule
            if self.solves:
                return "a solution in closed form"
        steps, optimiser = flat.get("steps"), flat.get("optimiser")
        parts = [str(optimiser), f"rate {flat.get('lr')}"]
        if str(optimiser).lower().partition("(")[0] == "sgd":
            parts.append(f"momentum {flat.get('momentum')}")
        parts.append(f"batches of {flat.get('batch-size')}")
        parts.append(
            f"steps in a round {steps}" if steps else f"epochs in a round {flat.get('epochs')}"
        )
        for key, words in _SELDOM.items():
            usual = default(key, None)
            if (value := flat.get(key, usual)) != usual:
                parts.append(words.format(value))
        return f"{flat.get('loss', default('loss', ''))} by " + ", ".join(parts)

    @property
    def model_words(self) -> str:
        """The model in words: its layers, its count of numbers, the encoder before it."""
        if (record := self.model) is None:
            asked = (self.card and self.card.training.solves) or self.config.get("model", "unknown")
            return f"{asked} as configured; its layers were not kept"
        layers = list(record.layers)
        if len(layers) > MOST_LAYERS:
            half, left = MOST_LAYERS // 2, len(layers) - MOST_LAYERS
            layers[half:-half] = [f"{left} more layers"]
        words = f"{record.kind}, {record.numbers:,} numbers: {', '.join(layers)}"
        if record.encoder == NONE:
            return words
        if (own := NamedModule.parse(record.encoder)) is not None:
            return f"{words}, on {record.features:,} features of the frozen module {own.text}"
        kind, size, groups = parse_encoder(record.encoder)
        drawn = f"the vector and {size} random units"
        if kind == KERNELS:
            drawn = f"{size} random kernels of {PER_KERNEL} features"
        if groups:
            drawn = f"statistics of each window: {', '.join(groups)}; {drawn}"
        return (
            f"{words}, on {record.features:,} features of the encoder {record.encoder} ({drawn}, "
            "drawn from the seed, never trained)"
        )

    @property
    def hyper_words(self) -> str:
        """The hyperparameters with their values."""
        if self.card is None:
            return ""
        return ", ".join(f"{key} = {value}" for key, value in option_values(self.hyper).items())


def method_runs(folder: Path, config: RunConfig | None, names: Iterable[str]) -> list[MethodRun]:
    """Return the runs of methods that a run's folder holds, in the order of `names`.

    Raises RunError if a database cannot be read.
    """
    runs = []
    for name in names:
        with RunDatabase(folder / name / DATABASE_FILE) as db:
            flat = json.loads(db.meta().get("config", "{}"))
            model, version = db.model(), db.trained_by()
        runs.append(method_run(name, name, flat, config, model, version))
    return runs


def method_run(
    name: str,
    method: str,
    started: Mapping[str, Any],
    config: RunConfig | None,
    model: ModelRecord | None,
    version: str,
) -> MethodRun:
    """Return the run of a method, from what its database holds.

    Parameters
    ----------
    started : flat keys of its start. Those that may change later are `config`'s, where it is there.
    """
    flat = {**(option_values(config) if config is not None else {}), **started}
    seed, rounds = int(flat.get("seed", 0)), int(flat.get("rounds", 0))
    return MethodRun(name, method, flat, rounds, (seed,), model, version)


def alike(
    runs: Iterable[MethodRun], words: Callable[[MethodRun], str]
) -> dict[str, tuple[str, ...]]:
    """Return the names of methods, each once, by the `words` that hold for them."""
    names_by_text: dict[str, dict[str, None]] = defaultdict(dict)
    for run in runs:
        names_by_text[words(run)][run.name] = None
    return {text: tuple(names) for text, names in names_by_text.items()}
