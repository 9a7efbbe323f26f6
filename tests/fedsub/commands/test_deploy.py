"""`fedsub deploy`: what it writes, and what it says to do with it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from .calls import Call


@pytest.mark.parametrize(
    ("settings", "beside"), [((), ""), (("--set", "beside=local"), "local")], ids=["file", "given"]
)
def test_an_app_trains_beside_its_method_what_was_given_for_it(
    fedsub: Call, settings: tuple[str, ...], beside: str
) -> None:
    """A file that was simulated with others beside it would have devices train these, too."""
    Path("run.toml").write_text('method = "ditto"\nbeside = "local,fedavg"\n')
    assert fedsub("deploy", "app", "run.toml", "--out", "app", *settings)[0] == 0
    written = tomllib.loads(Path("app/pyproject.toml").read_text("utf-8"))
    config = written["tool"]["flwr"]["app"]["config"]
    assert (config["method"], config["beside"]) == ("ditto", beside)


def test_keys_are_to_be_registered_under_a_client_id(fedsub: Call) -> None:
    code, out, _ = fedsub("deploy", "key", "ben", "--dir", "admin")
    assert code == 0 and Path("admin/nodes/ben.pub").is_file()
    assert "flwr supernode register admin/nodes/ben.pub --name CLIENT-ID" in out
