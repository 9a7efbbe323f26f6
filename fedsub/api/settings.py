"""A run's configuration from keyword arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub.api.modules import places_in
from fedsub_core.config.idle import check_given
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.config.toml import flatten
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import absolute_source

if TYPE_CHECKING:
    pass


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments as a run's keys: ``batch_size`` is ``batch-size``.

    A method's own are a mapping by its name, ``ditto={"lam": 0.5}``, or ``**{"ditto.lam": 0.5}``.
    """
    named = {key.replace("_", "-"): dict(value) if isinstance(value, Mapping) else value
             for key, value in settings.items()}  # fmt: skip
    return {key.replace("_", "-"): value for key, value in flatten(named)}


def configured(
    data: Any,
    method: str | None,
    rounds: int | None,
    beside: Iterable[str] | str | None,
    model: Any,
    settings: dict[str, Any],
) -> RunConfig:
    """Return a run's configuration; raises ConfigError as the command does."""
    settings = settings | {"model": model}
    places = places_in(settings)
    keys = flat_settings(settings) | places
    if isinstance(data, str | Path):
        keys["data"] = absolute_source(str(data))
    else:
        keys["data"] = data.card.name if isinstance(data, Federation) else "data"
    for key, value in (("method", method), ("rounds", rounds)):
        if value is not None:
            keys[key] = value
    if beside is not None:
        keys["beside"] = beside if isinstance(beside, str) else ",".join(beside)
    config = read_config(None, keys)
    check_given(config, keys, "settings")
    return config
