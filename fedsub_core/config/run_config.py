"""The configuration of a run: one TOML, typed, and refused where it is wrong.

Keys are kebab case in TOML, on the command line and in Flower's run config; a method's
hyperparameters are a table of its name (``[fedsub] fusion = "avg"``), which flattens to
``fedsub.fusion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import tomli_w

from fedsub_core.config.capacities import check_capacities, sizes
from fedsub_core.config.run_checks import check_run
from fedsub_core.config.settings import (
    CapacitySettings,
    DeviceSettings,
    ModelSettings,
    RobustSettings,
    RoundSettings,
    SecureSettings,
    ServerSettings,
    SplitSettings,
    TrainingSettings,
    text,
)
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.cores import usable_cores
from fedsub_core.encoders.names import NONE, check_encoder
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS, method
from fedsub_core.models.names import check_kind, parse_hidden
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

T = TypeVar("T")


@dataclass(frozen=True)
class RunAsked:
    """What is run."""

    data: str = text("watch", "a federation's folder, or 'watch' for the built-in one")
    method: str = text("fedsub", "the method to train")
    beside: str = option(
        "local,fedavg",
        "methods to train as well, for comparison, with commas; '': no others",
    )


# Options come in the order of these, the last one's first; those of this class at the end.
@dataclass(frozen=True)
class RunConfig(
    SecureSettings,
    CapacitySettings,
    RoundSettings,
    TrainingSettings,
    SplitSettings,
    ModelSettings,
    RunAsked,
):
    """Everything that decides a run, with the defaults of the journal version or ours.

    ``hyper`` maps the name of each method of the run to its hyperparameters; what is not given
    is filled with the method's defaults.
    """

    sizes: str = option(
        "",
        "shares, such as 1,1/2,3/8: at the end of a simulation, everybody is also tested with the "
        "common model of each size, even of sizes that nobody trained; if left out, with no other "
        "size",
    )
    class_counts: bool = option(
        True,
        "devices send a confusion matrix of their test samples for the report, for up to 50 "
        "classes; false: they do not send it",
    )
    device: str = choice(
        "auto", "cpu", "cuda", doc="where to compute; auto: cuda if there is a GPU"
    )
    threads: int = option(0, "number of threads; 0 = all cores", minimum=0)
    checkpoint_seconds: float = option(5.0, "seconds between two saved states", minimum=0)
    upload_encoding: str = option(
        "float32",
        "encodings of uploads, with commas: float32, bfloat16, int8, delta, top-k:SHARE, zstd",
    )
    download_encoding: str = option("float32", "encodings of downloads: the same, without top-k")
    message_limit: int = option(
        WireSettings.limit,
        "largest size of a message in bytes; 0 = computed from the model",
        minimum=0,
    )
    largest_number: float = option(
        WireSettings.largest, "largest absolute value of a number in a message", above=0
    )
    robust: str = option(
        "clip",
        "filters on uploads before the server uses them: none, or, with commas, clip, multi-krum, "
        "and either trimmed-mean or median",
    )
    robust_share: float = option(
        RobustSettings.share,
        "share of clients that multi-krum leaves out, or trimmed-mean at either end",
        minimum=0,
        below=0.5,
    )
    most_examples: float = option(
        RobustSettings.most_examples,
        "how many samples of one client count in a mean at most, as a multiple of the round's "
        "median; 0 = no limit",
        minimum=0,
    )
    out: str = text("runs", "folder in which the run's folder is created")
    folder: str = option(
        "",
        "for `flwr run` only: the run's folder; if it has a run already, that run is resumed; if "
        "left out, a new folder in out",
    )
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
        return self._part(SplitSettings)

    @property
    def capacity_settings(self) -> CapacitySettings:
        """What share of a model devices hold that do not say it themselves."""
        return self._part(CapacitySettings)

    def device_settings(self, name: str) -> DeviceSettings:
        """Return what the device half of method `name` needs."""
        training = self._part(TrainingSettings)
        return DeviceSettings(
            training=training,
            split=self.split_settings,
            seed=self.seed,
            class_counts=self.class_counts,
            **self._half(name),
        )

    def server_settings(self, name: str) -> ServerSettings:
        """Return what the server half of method `name` needs."""
        return ServerSettings(
            rounds=self._part(RoundSettings),
            workers=self.workers,
            robust=self.robust_settings,
            given=given(self),
            **self._half(name),
        )

    def _part(self, settings: type[T]) -> T:
        """Return the settings of a part of the run, whose options are also this one's."""
        return settings(**{f.name: getattr(self, f.name) for f in fields(cast(Any, settings))})

    def _half(self, name: str) -> dict[str, Any]:
        """Return what both halves of method `name` need."""
        model = replace(self._part(ModelSettings), model=self._model_of(name))
        return {
            **vars(model),
            "method": name,
            "hyper": self.hyper[name],
            "wire": self.wire,
            "secure": self._part(SecureSettings),
            "version": version_with(self.methods),
        }

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


def given(config: RunConfig) -> tuple[str, ...]:
    """Return the keys that are not at their defaults, but for those of rounds: a server's own.

    A device of the release before that does not know one of these cannot do what the run asks for.
    """
    rounds = {one.key for one in describe(RoundSettings)}
    usual = to_flat(RunConfig(method=config.method, beside=config.beside))
    return tuple(k for k, v in to_flat(config).items() if k not in rounds and v != usual[k])


def unknown_keys(flat: Mapping[str, Any]) -> frozenset[str]:
    """Return the keys of a Flower run's config that no option here has, as of a later release."""
    return frozenset(flat.keys() - _options().keys() - {SET})


def default(key: str, otherwise: object) -> object:
    """Return an option's value where none is given; `otherwise` where there is no such option."""
    found = _options().get(key)
    return otherwise if found is None else found.default


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
            elif key == "capacities":
                check_capacities(str(value))
            elif key == "sizes":
                sizes(str(value))
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
    check_run(config, where)
    return config
