"""Flat keys and values, as a file or the command line gives them, read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedsub_core.config.capacities import check_capacities, sizes
from fedsub_core.config.parts import parts
from fedsub_core.config.schedules import rate_factor
from fedsub_core.encoders.names import check_encoder
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS, method
from fedsub_core.models.names import check_kind, is_place
from fedsub_core.options import Option, Value, describe, nearest, suggestion


def method_options() -> dict[str, Option]:
    """Return the hyperparameters of every method as ``method.key``."""
    return {
        f"{name}.{one.key}": one
        for name, card in METHODS.items()
        for one in describe(card.hyperparameters)
    }


def hyperparameters(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return each method's hyperparameters, of checked values."""
    hyper = {}
    for name, card in METHODS.items():
        mine = {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{name}.")}
        hyper[name] = card.hyperparameters(**{k.replace("-", "_"): v for k, v in mine.items()})
    return hyper


def names_in(text: str) -> list[str]:
    """Return the names of a list with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def read_values(
    items: Iterable[tuple[str, Any]], known: Mapping[str, Option], where: str, as_text: bool
) -> dict[str, Value]:
    """Return flat keys with their values, each checked by its own option.

    Parameters
    ----------
    known : the options of a run by key.
    where : the file or the command line, which messages begin with.
    as_text : whether text is read as the option's type.

    Raises ConfigError where a key does not exist, or a value is of the wrong kind or out of range.
    """
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
                for name in names_in(str(value)):
                    method(name)
            elif key == "model":
                check_kind(str(value))
            elif key == "encoder":
                check_encoder(str(value))
            elif key == "capacities":
                check_capacities(str(value))
            elif key == "sizes":
                sizes(str(value))
            elif key == "schedule":
                rate_factor(str(value), 1)
            elif key in ("loss", "optimiser", "augment"):
                parts(str(value), key)
            elif key == "on-round" and value and not is_place(str(value)):
                raise ConfigError(f"got {value!r}, expected my.py:function")
        except ConfigError as error:
            what = str(error).removeprefix(f"{key}: ")
            raise ConfigError(f"{where}: {key}: {what}") from error
    return values


def _unknown(key: str, known: Mapping[str, Option], where: str) -> ConfigError:
    table, dot, _ = key.partition(".")
    if dot and table in METHODS:
        # They are few, and the nearest of all may be another method's.
        own = ", ".join(k for k in known if k.startswith(f"{table}.")) or "none"
        hint = f"{suggestion(key, known)} Known keys of method {table!r}: {own}."
    else:
        keys = [k for k in known if "." not in k] + [f"[{name}]" for name in METHODS]
        of_methods = [repr(k) for k in known if k.endswith(f".{key}")]
        meant = (
            f" Did you mean {' or '.join(of_methods)}?" if of_methods else suggestion(key, known)
        )
        hint = meant or nearest(key, keys, "Known keys")
    return ConfigError(f"{where}: unknown key {key!r}.{hint}")
