"""The Flower app takes our configuration's keys, with our defaults."""

import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import SET, from_flat, read_config, to_flat
from fedsub_core.config.toml import flatten
from fedsub_core.errors import ConfigError
from fedsub_server import app

ROOT = Path(__file__).resolve().parents[2]


def app_config() -> dict[str, object]:
    app = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    return dict(flatten(app["config"]))


def test_the_apps_keys_are_the_configurations_keys_and_defaults() -> None:
    flat = app_config()
    run = {key: value for key, value in to_flat(read_config()).items() if "." not in key}
    # Those of methods yet to come cannot be listed: they are given as text.
    assert flat == run | {SET: ""}
    assert from_flat(flat) == read_config()


def test_hyperparameters_of_any_method_are_given_as_text() -> None:
    given = app_config() | {"method": "ditto", SET: "fedsub.fusion=avg  ditto.lam=0.5"}
    config = from_flat(given | {"beside": "fedsub"})
    assert (config.hyper["ditto"].lam, config.hyper["fedsub"].fusion) == (0.5, "avg")
    # As a node gets them from a server that resolved them.
    assert from_flat(to_flat(config)) == config
    with refused(ConfigError, "set", "'ditto.lamb'", "'ditto.lam'"):
        from_flat(given | {SET: "ditto.lamb=0.5"})


def test_the_apps_components_name_objects_that_flower_finds() -> None:
    import fedsub_client.app
    import fedsub_server.app

    for module in (fedsub_client.app, fedsub_server.app):
        assert module.__all__ == ["app"] and module.app is not None


Said = Callable[..., list[str]]


def good(folder: Path) -> Path:
    return folder / "good.html"


def bad(folder: Path) -> Path:
    raise ValueError("no numbers")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Said:
    """Write reports of these names; return what was logged."""

    def write(**points: str) -> list[str]:
        found = [EntryPoint(name, value, app.REPORTS) for name, value in points.items()]
        monkeypatch.setattr(app, "entry_points", lambda group: EntryPoints(found))
        app.write_reports(Path("/a/run"))
        return caplog.messages

    return write


def test_one_that_fails_is_named_and_the_others_are_written(said: Said) -> None:
    here = __name__
    messages = said(lacking="no_such_package.report:write", bad=f"{here}:bad", good=f"{here}:good")
    assert "No module named 'no_such_package'" in messages[0]
    assert messages[1].startswith("bad: not written (ValueError: no numbers); `fedsub report /a/")
    assert messages[2] == "good: /a/run/good.html"


def test_where_none_is_installed_it_says_how_to_make_one(said: Said) -> None:
    (message,) = said()
    assert message.startswith("report: `fedsub report /a/run` writes it where fedsub[run]")
