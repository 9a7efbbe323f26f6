"""Newcomers with a target: what their own values add, files, and other targets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.api.adapting import NewcomersFile
from fedsub.newcomers.finished_run import FinishedRun
from fedsub.newcomers.newcomers_file import read_newcomers, write_newcomers
from fedsub.newcomers.results import source_of
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError, DataError

from ...methods.made_target import made


def some(federation: Federation, *names: str) -> Federation:
    return replace(federation, clients={name: federation.clients[name] for name in names})


@pytest.fixture(scope="module")
def town() -> Federation:
    """Six people who differ by a constant, of whom four train."""
    return made(noise=0.5, apart=1.5, people=6)


@pytest.fixture(scope="module")
def run(town: Federation, tmp_path_factory: pytest.TempPathFactory) -> fedsub.Run:
    out = str(tmp_path_factory.mktemp("runs"))
    crowd = some(town, "p0", "p1", "p2", "p3")
    return fedsub.run(
        crowd, "fedsub-ridge", 3, beside="fedavg", loss="squared", out=out, progress=False
    )


def test_a_newcomers_own_values_make_the_error_less(town: Federation, run: fedsub.Run) -> None:
    errors = {
        k: run.adapt(some(town, "p4", "p5"), samples_per_class=k).table for k in (0, 10, 1000)
    }
    means = [errors[k]["mae"].mean() for k in (0, 10, 1000)]
    assert means[0] > means[1] > means[2] and errors[1000]["r2"].min() > 0.9
    assert list(errors[10]["labelled"]) == [10, 10] and list(errors[0]["labelled"]) == [0, 0]
    assert {"macro_f1", "own_macro_f1"}.isdisjoint(errors[0].columns)


def test_a_persons_model_predicts_what_was_measured(town: Federation, run: fedsub.Run) -> None:
    found = run.adapt(some(town, "p5"), test_share=0)
    said, true = found.model("p5")(town.clients["p5"].x), town.clients["p5"].y
    assert found.table["mae"].isna().all() and np.abs(said - true).mean() < 1


def test_a_file_for_newcomers_does_as_the_runs_folder(
    town: Federation, run: fedsub.Run, tmp_path: Path
) -> None:
    write_newcomers(FinishedRun(run.folder, "fedsub-ridge"), tmp_path / "n.safetensors")
    given = read_newcomers(tmp_path / "n.safetensors")
    assert given.card is not None and given.card.target == town.card.target
    file = fedsub.load(tmp_path / "n.safetensors")
    assert isinstance(file, NewcomersFile)
    for k in (0, 20):
        ours, theirs = (one.adapt(some(town, "p4"), samples_per_class=k) for one in (file, run))
        assert ours.table.equals(theirs.table)


def test_people_without_values_get_everybodys_model(
    town: Federation, run: fedsub.Run, tmp_path: Path
) -> None:
    write_federation(tmp_path / "new", some(town, "p4", "p5"))
    path = tmp_path / "new" / "clients" / "p4.npz"
    x = np.load(path)["x"]
    np.savez(path, x=x)
    bare = run.adapt(tmp_path / "new")
    assert bare.table.loc["p4", "labelled"] == bare.table.loc["p4", "tested"] == 0
    none = run.adapt(some(town, "p4"), samples_per_class=0, test_share=0)
    np.testing.assert_allclose(bare.model("p4")(x), none.model("p4")(x), rtol=1e-5)


def test_another_target_and_a_method_without_sums_are_refused(
    town: Federation, run: fedsub.Run, tmp_path: Path
) -> None:
    assert town.card.target is not None
    wider = replace(town, card=replace(town.card, target=replace(town.card.target, high=21.0)))
    classes = fedsub.federation({"p9": (town.clients["p4"].x, [0, 1] * 65)})
    for other in (some(wider, "p4"), classes):
        with refused(DataError, "target", "'p" + ("4'" if other is not classes else "9'")):
            run.adapt(other)
    with refused(ConfigError, "fedavg"):
        source_of(run.folder, "fedavg")
