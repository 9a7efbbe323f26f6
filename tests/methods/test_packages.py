"""Packages that offer methods: their version in the handshake, their code in the run's digest."""

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

import pytest

from fedsub.engines.simulation import build_strategy, train_method
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import people
from fedsub_core import packages
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.methods.table import GROUP, INSTALLED, METHODS
from fedsub_core.packages import build_with, package_build, package_of, version_with
from fedsub_core.version import VERSION, build
from fedsub_server.rundb import RunDatabase

Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Offer FedAvg under the name of `mine` by a package of a version; again: another version."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def put(version: str) -> None:
        module = tmp_path / "site" / "mine_package"
        module.mkdir(parents=True, exist_ok=True)
        (module / "__init__.py").write_text(f'"""Version {version}."""\n', "utf-8")
        about = tmp_path / "site" / "mine_package.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(f"Name: mine-package\nVersion: {version}\n", "utf-8")
        (about / "entry_points.txt").write_text(f"[{GROUP}]\nmine = mine_package:CARD\n", "utf-8")
        (found,) = distributions(path=[str(tmp_path / "site")])
        (point,) = found.entry_points
        monkeypatch.setitem(INSTALLED, "mine", point)
        monkeypatch.setitem(METHODS, "mine", replace(METHODS["fedavg"], name="mine"))
        package_build.cache_clear()

    return put


def config(tmp_path: Path) -> RunConfig:
    if not (tmp_path / "data").exists():
        write_federation(tmp_path / "data", people())
    return RunConfig(method="mine", beside="local", rounds=1, data=str(tmp_path / "data"))


def test_of_methods_of_its_own_a_run_has_its_own_version_alone(install: Install) -> None:
    install("1.2")
    assert version_with(["fedavg", "local"]) == VERSION
    assert (package_of("fedavg"), package_build("fedavg")) == ("", "")
    assert build_with("fedavg") == build()


def test_packages_are_named_once_and_sorted(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("1.2")
    monkeypatch.setitem(INSTALLED, "theirs", INSTALLED["mine"])
    monkeypatch.setitem(INSTALLED, "bare", EntryPoint("bare", "a_folder.card:CARD", GROUP))
    said = f"{VERSION} with a_folder 0+source and mine-package 1.2"
    assert version_with(["theirs", "local", "mine", "bare"]) == said


def test_another_line_of_a_package_is_another_code(install: Install, tmp_path: Path) -> None:
    install("1.2")
    before = package_build("mine")
    assert before.startswith("mine-package 1.2 (code ")
    (tmp_path / "site" / "mine_package" / "more.py").write_text("\n", "utf-8")
    package_build.cache_clear()
    assert package_build("mine") != before
    assert build_with("mine") == f"{build()} with {package_build('mine')}"


def test_a_device_with_another_version_of_a_methods_package_is_told_and_turned_away(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("1.2")
    run = config(tmp_path)
    same, grid = build_strategy(run, "mine"), DeviceGrid(run, 4)
    install("1.2.7")  # on the devices alone: of the same series
    same.start(grid)
    assert same.finished_rounds == 1 and same.registry.behind() == {}

    install("1.2")
    other, grid = build_strategy(replace(run, join_timeout=0.1), "mine"), DeviceGrid(run, 4)
    install("1.3")  # on the devices alone
    expected = rf"got fedsub {VERSION} with mine-package 1\.2 .*expected fedsub {VERSION} with mine"
    with pytest.raises(RunError, match=rf"versions: {expected}-package 1\.3"):
        other.start(grid)

    # A device that does not look is looked at by the server.
    monkeypatch.setattr("fedsub_client.device.version_with", lambda names: other.settings.version)
    again, grid = build_strategy(replace(run, join_timeout=0.1), "mine"), DeviceGrid(run, 4)
    again.half.settings = replace(again.half.settings, version=other.settings.version)
    expected = (
        r"handshake refused: .*got .*mine-package 1\.3 .*expected .*mine-package 1\.2.*: the same"
    )
    with pytest.raises(RunError, match=expected):
        again.start(grid)


def test_a_run_keeps_which_package_trained_it(install: Install, tmp_path: Path) -> None:
    path, found = tmp_path / "run" / "state.db", []
    for version in ("1.2", "1.2", "1.3"):
        install(version)
        train_method(config(tmp_path), "mine", people(), path.parent, lambda round: None)
        found.append(packages.package_build("mine"))
    assert found[0] == found[1] != found[2]
    with RunDatabase(path) as database:
        assert database.trained_by() == f"{build()} with {found[0]}, {found[2]}"


@pytest.mark.parametrize(
    ("place", "got"),
    [
        ("strategies.rounds.strategy:MineStrategy", "No module named 'strategies.rounds.strategy'"),
        ("strategies.methods.fedavg:MineServer", "has no attribute 'MineServer'"),
        ("fedsub_core.errors:RunError", "got <class 'fedsub_core.errors.RunError'>"),
    ],
)
def test_a_card_of_another_release_is_refused_by_name(
    place: str, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "mine", replace(METHODS["fedavg"], name="mine", strategy=place))
    with pytest.raises(ConfigError, match=re.escape(f"method 'mine': {place}: ")) as refused:
        build_strategy(RunConfig(method="mine", beside="", rounds=1), "mine")
    assert got in str(refused.value)
