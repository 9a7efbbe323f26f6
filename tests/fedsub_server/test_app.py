"""The Flower app takes our configuration's keys, with our defaults."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fedsub_core.config.run_config import from_flat, read_config, to_flat
from fedsub_core.config.toml import flatten

ROOT = Path(__file__).resolve().parents[2]
# What only an engine of ours reads, and what differs for a first `flwr run .`.
OURS = {"device", "threads", "checkpoint-seconds"}
FIRST_RUN = {"rounds": 3, "beside": ""}


def test_the_apps_keys_are_the_configurations_keys_and_defaults() -> None:
    app = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    flat = dict(flatten(app["config"]))
    expected = {k: v for k, v in to_flat(read_config()).items() if k not in OURS} | FIRST_RUN
    assert flat == expected
    assert to_flat(from_flat(flat))["fedsub.fusion"] == "overlapping"


def test_the_apps_components_name_objects_that_flower_finds() -> None:
    import fedsub_client.app
    import fedsub_server.app

    for module in (fedsub_client.app, fedsub_server.app):
        assert module.__all__ == ["app"] and module.app is not None
