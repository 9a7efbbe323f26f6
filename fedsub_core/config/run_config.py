"""The configuration of a run: one TOML, typed, and refused where it is wrong.

Keys are kebab case in TOML, on the command line and in Flower's run config; a method's
hyperparameters are a table of its name (``[fedsub] fusion = "avg"``), which flattens to
``fedsub.fusion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from fedsub_core.config.capacities import all_whole, check_capacities
from fedsub_core.config.settings import (
    DeviceSettings,
    RobustSettings,
    RoundSettings,
    ServerSettings,
    SplitSettings,
    TrainingSettings,
    UnseenSettings,
)
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.cores import usable_cores
from fedsub_core.encoders.names import NONE, check_encoder
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS, method
from fedsub_core.models.names import HIDDEN, check_kind, parse_hidden
from fedsub_core.options import (
    Option,
    Value,
    choice,
    describe,
    key_values,
    option,
    option_values,
    suggestion,
)
from fedsub_core.packages import version_with
from fedsub_core.wire.encoding import WireSettings


def _text(default: str, doc: str) -> Any:
    """Return a key whose value is a text that says something."""
    like = "one text, not empty, without blanks around it"
    return option(default, doc, pattern=r"\S(.*\S)?", like=like)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run, with the defaults of the journal version or ours.

    ``hyper`` maps the name of each method of the run to its hyperparameters; what is not given
    is filled with the method's defaults.
    """

    data: str = _text("watch", "a federation's folder, or 'watch' for the one built in")
    method: str = _text("fedsub", "the method of the run")
    beside: str = option(
        "local,fedavg", "methods trained beside it to compare, with commas; '' none"
    )
    rounds: int = option(60, "rounds of the federation", minimum=1)
    model: str = _text(
        "auto",
        "one of `fedsub models`, an installed one, package.module:builder or file.py:builder; "
        "auto: mlp for features, cnn1d for raw windows, cnn2d for images, fasttext for token ids",
    )
    hidden: str = option(HIDDEN, "units of each hidden layer of mlp, with commas; '' none")
    norm: str = choice(
        "averaged",
        "local",
        "static",
        doc="running statistics of a module's norms: averaged over people, local (these layers "
        "stay at home whole, as FedBN's) or static (of the batch, and in tests of one's own "
        "training part)",
    )
    encoder: str = _text(
        "auto",
        "fixed features in front of the model: none, kernels:N of windows, relu:N of feature "
        "vectors; auto: none, or what the method's page says",
    )
    capacity: str = _text(
        "1",
        "share of the encoder that simulated devices compute, in (0, 1]: one for all; 0.25,0.5,1, "
        "which clients take in turn; or client=share, all others 1. A real device says its own",
    )
    split: str = choice(
        "auto",
        "stratified",
        "blocked",
        "unseen",
        doc="how test samples are chosen; auto: blocked where windows overlap or stand in order "
        "of time, else stratified (the paper's)",
    )
    test_share: float = option(0.3, "share of each class that is tested", above=0, below=1)
    train_share: float = option(
        1.0, "share of each class's training samples that is kept", above=0, maximum=1
    )
    unlabelled: float = option(
        0.0, "share of people without labels of some of their classes", minimum=0, maximum=1
    )
    unlabelled_classes: float = option(
        0.8, "share of their classes that lack labels, at most; all are tested", minimum=0, below=1
    )
    unseen_share: float = option(0.2, "share of clients held out by unseen", above=0, below=1)
    unseen_rounds: int = option(5, "last rounds, in which held-out clients join", minimum=1)
    standardise: str = choice(
        "federation-median",
        "federation",
        "client",
        "none",
        doc="whose training parts give mean and deviation; federation-median: medians over people, "
        "which one that lies cannot turn; federation: sums",
    )
    seed: int = option(0, "all randomness of the run follows from it", minimum=0, maximum=2**63 - 1)
    clients_per_round: int = option(
        0,
        "clients drawn in each round; 0 = all. Who was in none is tested with what it starts from",
        minimum=0,
    )
    epochs: int = option(1, "passes over a client's data in a round", minimum=1)
    optimiser: str = choice("sgd", "adam", doc="of local training")
    lr: float = option(0.005, "learning rate", above=0)
    lr_decay: float = option(1.0, "factor of the learning rate from round to round", above=0)
    momentum: float = option(0.9, "momentum of SGD, reset every round", minimum=0, below=1)
    weight_decay: float = option(0.0, "L2 penalty's factor in the gradient", minimum=0)
    clip_norm: float = option(0.0, "most L2 norm of a client's gradient; 0 = any", minimum=0)
    batch_size: int = option(32, "samples in a step", minimum=1, maximum=65536)
    device: str = choice("auto", "cpu", "cuda", doc="auto: cuda where there is one")
    threads: int = option(0, "threads of computation; 0 = all cores", minimum=0)
    evaluate_every: int = option(1, "rounds between two evaluations", minimum=1)
    best_by: str = choice(
        "last",
        "validation",
        doc="whose model is tested, saved and used: last, everybody's of the last round; "
        "validation: of all evaluated rounds each person's own best, by macro F1 on a part of the "
        "training samples that is held back, never by tested ones",
    )
    checkpoint_seconds: float = option(5.0, "seconds between two saved states", minimum=0)
    upload_encoding: str = option(
        "float32", "filters of uploads: float32, bfloat16, int8, delta, top-k:SHARE, zstd"
    )
    download_encoding: str = option("float32", "filters of downloads, without top-k")
    message_limit: int = option(0, "most bytes of a message; 0 = from the model", minimum=0)
    largest_number: float = option(1e6, "greatest size of a number in a message", above=0)
    robust: str = option(
        "clip",
        "filters of uploads before the server uses them: none, or clip, multi-krum, and one of "
        "trimmed-mean and median, with commas",
    )
    robust_share: float = option(
        0.2,
        "share of clients that multi-krum leaves out, and trimmed-mean at either end",
        minimum=0,
        below=0.5,
    )
    most_examples: float = option(
        3.0,
        "samples of one client that count in a mean, over the round's median at most; 0 = any",
        minimum=0,
    )
    round_timeout: float = option(600.0, "seconds a round waits for its clients", above=0)
    quorum: float = option(
        0.5, "share of a round's clients whose uploads it needs", minimum=0, maximum=1
    )
    min_clients: int = option(1, "clients that must be connected for a round", minimum=1)
    join_timeout: float = option(120.0, "seconds to wait for them", above=0)
    identity: str = choice(
        "keys",
        "open",
        doc="keys: a client is whose key was registered under its id, or who first took part with "
        "its key; open: whoever says so",
    )
    out: str = _text("runs", "folder in which the run's folder is made")
    folder: str = option("", "a Flower run's own folder; given again, that run goes on")
    hyper: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = self.hyper
        chosen = {n: given.get(n, method(n).hyperparameters()) for n in self.methods}
        object.__setattr__(self, "hyper", chosen)
        _ = self.wire, self.robust_settings  # refuse what does not exist
        check_kind(self.model)
        parse_hidden(self.hidden)
        check_encoder(self.encoder)
        for name in self.methods:
            if method(name).model and self.encoder == NONE:
                raise ConfigError(
                    f"encoder: got {NONE!r}, expected auto, kernels:N or relu:N: method {name!r} "
                    "solves heads on the features of an encoder, which are whole levels"
                )
        if not all_whole(self.capacity) and not any(method(n).narrow for n in self.methods):
            able = ", ".join(name for name, card in METHODS.items() if card.narrow)
            raise ConfigError(
                f"capacity: got {self.capacity!r}, expected 1: with {', '.join(self.methods)} all "
                f"devices hold the whole model. Weak devices take part in {able}"
            )

    @property
    def methods(self) -> tuple[str, ...]:
        """The method of the run, then those beside it, each once."""
        return tuple(dict.fromkeys([self.method, *_names(self.beside)]))

    @property
    def wire(self) -> WireSettings:
        """How messages are written."""
        return WireSettings.parse(
            self.upload_encoding, self.download_encoding, self.message_limit, self.largest_number
        )

    @property
    def split_settings(self) -> SplitSettings:
        """How each client's samples are split."""
        return SplitSettings(
            self.split,
            self.test_share,
            self.train_share,
            self.seed,
            self.unlabelled,
            self.unlabelled_classes,
            self.best_by == "validation",
        )

    def device_settings(self, name: str) -> DeviceSettings:
        """Return what the device half of method `name` needs."""
        training = TrainingSettings(
            epochs=self.epochs,
            lr=self.lr,
            momentum=self.momentum,
            batch_size=self.batch_size,
            optimiser=self.optimiser,
            weight_decay=self.weight_decay,
            clip_norm=self.clip_norm,
            lr_decay=self.lr_decay,
        )
        return DeviceSettings(
            name,
            self.hyper[name],
            training,
            self.split_settings,
            self.wire,
            self._model_of(name),
            self.standardise,
            self.seed,
            self.encoder,
            self.norm,
            version_with(self.methods),
            self.hidden,
        )

    def server_settings(self, name: str) -> ServerSettings:
        """Return what the server half of method `name` needs."""
        unseen = UnseenSettings(self.unseen_share, self.unseen_rounds)
        rounds = RoundSettings(
            rounds=self.rounds,
            seed=self.seed,
            clients_per_round=self.clients_per_round,
            evaluate_every=self.evaluate_every,
            timeout=self.round_timeout,
            quorum=self.quorum,
            min_clients=self.min_clients,
            join_timeout=self.join_timeout,
            unseen=unseen if self.split == "unseen" else None,
            identity=self.identity,
        )
        return ServerSettings(
            name,
            self.hyper[name],
            rounds,
            self.wire,
            self._model_of(name),
            self.standardise,
            self.workers,
            self.robust_settings,
            encoder=self.encoder,
            norm=self.norm,
            version=version_with(self.methods),
            hidden=self.hidden,
        )

    def _model_of(self, name: str) -> str:
        """Return the kind of model that a method trains."""
        return method(name).model or self.model

    @property
    def robust_settings(self) -> RobustSettings:
        """What keeps a few malicious uploads from deciding a mean."""
        return RobustSettings.parse(self.robust, self.robust_share, self.most_examples)

    @property
    def workers(self) -> int:
        """Threads to compute with: as configured, or the cores this process may use."""
        return self.threads or usable_cores()


def read_config(
    path: Path | str | None = None, overrides: Mapping[str, Value] | None = None
) -> RunConfig:
    """Return the configuration in the file `path`, if any, with `overrides` on top.

    Parameters
    ----------
    path : Path, str or None
        A TOML file; None for the defaults.
    overrides : mapping of str to str, int, float or bool
        Flat keys of the command line, such as ``rounds`` or ``fedsub.fusion``. Text is read as
        the option's type.

    Raises
    ------
    ConfigError
        Where the file cannot be read, or a key does not exist, or a value is of the wrong kind
        or out of range. It names the file or the command line, the key, and the nearest name.
    """
    values: dict[str, Value] = {}
    if path is not None:
        values = _checked(flatten(read_toml(Path(path))), str(path), as_text=False)
    values |= _checked((overrides or {}).items(), "command line", as_text=True)
    return _build(values, "command line" if path is None else str(path))


#: The key of a Flower run's config that holds hyperparameters of any method, as text.
SET = "set"


def from_flat(flat: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of flat, typed keys, such as Flower's run config.

    Flower only lets keys be given that an app's file lists, and no file can list the
    hyperparameters of methods yet to come: ``set = "fedsub.fusion=avg ditto.lam=0.5"`` gives them.
    """
    where = "run config"
    given = {key: value for key, value in flat.items() if key != SET}
    values = _checked(given.items(), where, as_text=False)
    settings = key_values(str(flat.get(SET, "")).split(), where, "fedsub.fusion=avg")
    return _build(values | _checked(settings.items(), f"{where}: {SET}", as_text=True), where)


def to_flat(config: RunConfig) -> dict[str, Value]:
    """Return every key with its value, hyperparameters as ``method.key``."""
    flat = option_values(config)
    for name, hyper in config.hyper.items():
        flat |= {f"{name}.{key}": value for key, value in option_values(hyper).items()}
    return flat


def dump_toml(config: RunConfig) -> str:
    """Return the whole configuration as TOML; :func:`read_config` gives it back equal."""
    table: dict[str, Any] = {}
    for key, value in to_flat(config).items():
        name, dot, inner = key.partition(".")
        if dot:
            table.setdefault(name, {})[inner] = value
        else:
            table[key] = value
    return tomli_w.dumps(table)


def differences(a: RunConfig, b: RunConfig) -> dict[str, str]:
    """Return a line "key: value in a -> value in b" for every key that differs, by key."""
    left, right = to_flat(a), to_flat(b)
    keys = dict.fromkeys([*left, *right])
    pairs = ((k, left.get(k, "(none)"), right.get(k, "(none)")) for k in keys)
    return {k: f"{k}: {old!r} -> {new!r}" for k, old, new in pairs if old != new}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _options() -> dict[str, Option]:
    known = {o.key: o for o in describe(RunConfig)}
    for name, row in METHODS.items():
        known |= {f"{name}.{o.key}": o for o in describe(row.hyperparameters)}
    return known


def _checked(items: Iterable[tuple[str, Any]], where: str, as_text: bool) -> dict[str, Value]:
    known = _options()
    values: dict[str, Value] = {}
    for key, value in items:
        if key not in known:
            raise _unknown(key, known, where)
        table, dot, _ = key.partition(".")
        place = f"{where}: [{table}]" if dot else where
        if as_text and isinstance(value, str):
            values[key] = known[key].parse(value, place)
        else:
            values[key] = known[key].check(value, place)
        try:
            if key in ("method", "beside"):
                for name in _names(str(value)):
                    method(name)
            elif key == "model":
                check_kind(str(value))
            elif key == "encoder":
                check_encoder(str(value))
            elif key == "capacity":
                check_capacities(str(value))
        except ConfigError as error:
            raise ConfigError(f"{where}: {key}: {error}") from error
    return values


def _unknown(key: str, known: Mapping[str, Option], where: str) -> ConfigError:
    table, dot, _ = key.partition(".")
    if dot and table in METHODS:
        of, same = f" of method {table!r}", [k for k in known if k.startswith(f"{table}.")]
    else:
        of, same = "", [k for k in known if "." not in k] + [f"[{name}]" for name in METHODS]
    names = ", ".join(same) or "none"
    return ConfigError(
        f"{where}: unknown key {key!r}.{suggestion(key, known)} Known keys{of}: {names}."
    )


def _build(values: Mapping[str, Value], where: str) -> RunConfig:
    """Return the configuration of checked values, or refuse values that exclude each other.

    Hyperparameters of methods that the run does not use have been checked and are left out: a
    file may set several methods and leave the choice to the command line.
    """
    own: dict[str, Any] = {k.replace("-", "_"): v for k, v in values.items() if "." not in k}
    hyper = {}
    for name, row in METHODS.items():
        mine = {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{name}.")}
        hyper[name] = row.hyperparameters(**{k.replace("-", "_"): v for k, v in mine.items()})
    config = RunConfig(**own, hyper=hyper)
    if config.split == "unseen" and config.unseen_rounds >= config.rounds:
        raise ConfigError(
            f"{where}: unseen-rounds: got {config.unseen_rounds} of {config.rounds} rounds, "
            "expected fewer: held-out people must not train from the first round on. Lower it, or "
            "raise rounds."
        )
    if config.best_by == "validation":
        _check_best_by(config, where)
    for name in config.methods:
        _check_method(config, name, where)
    return config


def _check_best_by(config: RunConfig, where: str) -> None:
    """Refuse to choose among rounds where there is nothing to choose between."""
    got = ""
    if config.split == "unseen":
        got = "split = unseen, where people are tested that join in the last rounds"
    elif config.evaluate_every >= config.rounds:
        got = f"{config.rounds} rounds with evaluate-every = {config.evaluate_every}"
    if got:
        raise ConfigError(
            f"{where}: best-by = validation: got {got}, expected two or more evaluated rounds, in "
            "all of which the same people are tested. Set best-by = last, or change the other"
        )


def _check_method(config: RunConfig, name: str, where: str) -> None:
    """Refuse a method whose phases do not fit the run, or that shows what nobody agreed to show."""
    card, hyper = METHODS[name], config.hyper[name]
    for need in card.needs:
        if not getattr(hyper, need):
            raise ConfigError(
                f"{where}: method {name!r} needs people's consent: {card.privacy} Set "
                f"{name}.{need.replace('_', '-')} = true where they agreed"
            )
    try:
        card.check(hyper, config.rounds)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
