"""TOML files as flat keys: ``[fedsub] fusion = "avg"`` is ``fedsub.fusion``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS


def read_toml(path: Path) -> dict[str, Any]:
    """Return a file's tables, or raise ConfigError where it cannot be read as TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path}: cannot be read as TOML: {error}. Check the path, or correct the file."
        ) from error


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a TOML table's keys with their values, inner tables as ``table.key``."""
    for key, value in table.items():
        if isinstance(value, dict) and (value or prefix + key in METHODS):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
