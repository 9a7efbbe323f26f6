"""The configuration of a run.

Keys are kebab case in TOML, on the command line and in Flower's run config; a method's
hyperparameters are a table of its name (``[fedsub] fusion = "avg"``), which flattens to
``fedsub.fusion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import tomli_w

from fedsub_core.config.capacities import CapacitySettings
from fedsub_core.config.halves import DeviceSettings, ServerSettings
from fedsub_core.config.reading import hyperparameters, method_options, names_in, read_values
from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.run_checks import check_run
from fedsub_core.config.run_options import RunAsked, RunOptions
from fedsub_core.config.settings import (
    ModelSettings,
    NoiseSettings,
    RoundSettings,
    SecureSettings,
    SplitSettings,
    TrainingSettings,
)
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.cores import usable_cores
from fedsub_core.encoders.names import NONE, pinned_encoder
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import method
from fedsub_core.models.names import check_kind, parse_hidden
from fedsub_core.options import Option, Value, describe, key_values, option_values
from fedsub_core.packages import version_with
from fedsub_core.wire.encoding import WireSettings

T = TypeVar("T")


# Options come in the order of these, the last one's first; those of RunOptions at the end.
@dataclass(frozen=True)
class RunConfig(
    RunOptions,
    NoiseSettings,
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

    hyper: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = {n: self.hyper.get(n, method(n).hyperparameters()) for n in self.methods}
        object.__setattr__(self, "hyper", chosen)
        _ = self.wire, self.robust_settings  # refuse what does not exist
        check_kind(self.model)
        parse_hidden(self.hidden)
        object.__setattr__(self, "encoder", pinned_encoder(self.encoder))
        for name in self.methods:
            if method(name).training.solves and self.encoder == NONE:
                raise ConfigError(
                    f"encoder: got {NONE!r}, expected auto or the name of one: method {name!r} "
                    "solves heads on the features of an encoder, which are whole levels"
                )

    @property
    def methods(self) -> tuple[str, ...]:
        """The method of the run, then those beside it, each once."""
        return tuple(dict.fromkeys([self.method, *names_in(self.beside)]))

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
        """Return the settings of the device half of method `name`."""
        return DeviceSettings(
            training=self._part(TrainingSettings),
            split=self.split_settings,
            seed=self.seed,
            class_counts=self.class_counts,
            **self._half(name),
        )

    def server_settings(self, name: str) -> ServerSettings:
        """Return the settings of the server half of method `name`."""
        return ServerSettings(
            rounds=self._part(RoundSettings),
            workers=self.workers,
            robust=self.robust_settings,
            training=self._part(TrainingSettings),
            given=given(self),
            **self._half(name),
        )

    def _part(self, settings: type[T]) -> T:
        """Return the settings of a part of the run, whose options are also this one's."""
        return settings(**{f.name: getattr(self, f.name) for f in fields(cast(Any, settings))})

    def _half(self, name: str) -> dict[str, Any]:
        """Return what both halves of method `name` need."""
        model = replace(self._part(ModelSettings), model=method(name).training.solves or self.model)
        return {
            **vars(model),
            "method": name,
            "hyper": self.hyper[name],
            "wire": self.wire,
            "secure": self._part(SecureSettings),
            "noise": self._part(NoiseSettings),
            "version": version_with(self.methods),
        }

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
    path : a TOML file; None for the defaults.
    overrides : flat keys of the command line, such as ``rounds`` or ``fedsub.fusion``. Text is
        read as the option's type.

    Raises ConfigError where the file cannot be read, or a key does not exist, or a value is of the
    wrong kind or out of range. It names the file or the command line, the key, and the nearest
    name.
    """
    values: dict[str, Value] = {}
    if path is not None:
        values = read_values(flatten(read_toml(Path(path))), _options(), str(path), as_text=False)
    values |= read_values((overrides or {}).items(), _options(), "command line", as_text=True)
    return _build(values, "command line" if path is None else str(path))


#: The key of a Flower run's config that holds hyperparameters of any method, as text.
SET = "set"


def from_flat(flat: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of flat, typed keys, such as Flower's run config.

    Flower only lets keys be given that an app's file lists, and no file can list the
    hyperparameters of methods yet to come: ``set = "fedsub.fusion=avg ditto.lam=0.5"`` gives them.
    """
    where = "run config"
    keys = ((key, value) for key, value in flat.items() if key != SET)
    values = read_values(keys, _options(), where, as_text=False)
    settings = key_values(str(flat.get(SET, "")).split(), where, "fedsub.fusion=avg")
    values |= read_values(settings.items(), _options(), f"{where}: {SET}", as_text=True)
    return _build(values, where)


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
        (table.setdefault(name, {}) if dot else table)[inner or name] = value
    return tomli_w.dumps(table)


def differences(a: RunConfig, b: RunConfig) -> dict[str, str]:
    """Return a line "key: value in a -> value in b" for every key that differs, by key."""
    left, right = to_flat(a), to_flat(b)
    pairs = ((k, left.get(k, "(none)"), right.get(k, "(none)")) for k in {**left, **right})
    return {k: f"{k}: {old!r} -> {new!r}" for k, old, new in pairs if old != new}


def _options() -> dict[str, Option]:
    return {o.key: o for o in describe(RunConfig)} | method_options()


def _build(values: Mapping[str, Value], where: str) -> RunConfig:
    """Return the configuration of checked values, or refuse values that exclude each other.

    Hyperparameters of methods that the run does not use have been checked and are left out: a
    file may set several methods and leave the choice to the command line.
    """
    own: dict[str, Any] = {k.replace("-", "_"): v for k, v in values.items() if "." not in k}
    config = RunConfig(**own, hyper=hyperparameters(values))
    check_run(config, where)
    return config
