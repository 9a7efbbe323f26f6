"""`fedsub.run`, `compare` and `load` from Python: tables, models, modules."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedsub
from fedsub.api.settings import flat_settings
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, DataError, RunError
from fedsub_server.results import method_summaries

from .people import people

#: Of a model of one's own, which has its hidden layers itself; and of mlp.
OWN: dict[str, Any] = {"progress": False, "rounds": 2}
QUIET = OWN | {"hidden": "8"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> fedsub.Run:
    """A run of two methods on people in memory."""
    out = tmp_path_factory.mktemp("runs")
    return fedsub.run(people(), "ditto", beside="local", out=str(out), ditto={"lam": 0.5}, **QUIET)


def test_tables_hold_what_the_folder_holds(run: fedsub.Run) -> None:
    assert run.methods == ("ditto", "local")
    ditto, local = method_summaries(run.folder)
    assert run.table.loc["ditto", "macro_f1"] == ditto.macro_f1
    assert run.table.loc["local", "loss"] == local.loss
    assert set(run.people["person"]) == {"01", "02", "03", "04"}  # text
    own = run.people[run.people["method"] == "ditto"]
    assert own["macro_f1"].mean() == pytest.approx(ditto.macro_f1)
    assert set(run.metrics["class"]) == {"", "a", "b"} and run.metrics["round"].max() == 2
    assert run.config.hyper["ditto"].lam == 0.5
    shown = run._repr_html_()
    assert "macro_f1" in shown and str(run.folder) in shown and "<a href" not in shown
    page = run.report
    assert "srcdoc=" in page._repr_html_() and f"<a href='{page.path}'" in run._repr_html_()


def test_curves_and_confusion_are_of_the_tested_samples(tmp_path: Path) -> None:
    data = people()
    run = fedsub.run(data, "ditto", beside="local", out=str(tmp_path), **QUIET)
    curves, counts = run.curves(), run.confusion()
    assert curves.index.tolist() == [1, 2] and set(curves) == {"ditto", "local"}
    assert curves.loc[2, "ditto"] == pytest.approx(run.table.loc["ditto", "macro_f1"])
    right = run.people.query("method == 'ditto'").eval("accuracy * examples").sum()
    assert np.trace(counts) == pytest.approx(right) and list(counts) == ["a", "b"]
    tested = run.predictions.query("method == 'ditto' and person == '02'")
    model, x = run.model("02"), data["02"][0][tested["index"]]
    shares = tested[["probability a", "probability b"]].to_numpy()
    np.testing.assert_allclose(model.predict_proba(x), shares, rtol=1e-6)
    assert isinstance(model.module, nn.Module)
    again = fedsub.federation(data)
    assert len(repr(again)) < 200 and len(repr(again.clients["02"])) < 100


def test_a_run_leaves_a_folder_of_its_own_without_the_data(run: fedsub.Run) -> None:
    assert re.fullmatch(r"data-ditto-\d{8}-\d{6}", run.folder.name)
    assert [path.name for path in run.folder.parent.iterdir()] == [run.folder.name]
    assert not [*run.folder.rglob("*.npz"), *run.folder.rglob("federation.toml")]


def test_a_persons_model_is_a_function_of_raw_samples(run: fedsub.Run, tmp_path: Path) -> None:
    x, y = people()["02"]
    model = run.model("02")
    found = model(x)
    assert found.shape == (40, 2) and np.allclose(found.sum(1), 1, atol=1e-6)
    assert np.mean(model.predict(x) == y) > 0.6
    import pandas as pd

    shuffled = pd.DataFrame(x, columns=["x1", "x2", "x3", "x4"])[["x3", "x1", "x4", "x2"]]
    assert np.array_equal(model(shuffled), found)
    with pytest.raises(DataError, match="expected x4, too"):
        model(shuffled.drop(columns="x4"))
    again = fedsub.load(model.export(tmp_path / "02.safetensors"))
    assert isinstance(again, fedsub.PersonModel)
    assert np.array_equal(again(x), found) and again.person == "02"
    with refused(RunError, "'05'", expected="01, 02, 03, 04"):
        run.model("05")
    with refused(RunError, "'01'", expected="01, 02, 03, 04"):
        run.model("01.0")  # so a table names a person that it keeps as a number
    with refused(RunError, got="'fedavg'", expected="ditto, local"):
        run.model("02", "fedavg")


def test_samples_of_different_lengths_are_refused(run: fedsub.Run) -> None:
    with pytest.raises(DataError, match="x: got rows of different lengths"):
        run.model(run.persons()[0])([[1.0], [1.0, 2.0]])


def test_a_run_is_loaded_from_its_folder(run: fedsub.Run, tmp_path: Path) -> None:
    again = fedsub.load(run.folder)
    assert isinstance(again, fedsub.Run)
    assert again.table.equals(run.table)
    with pytest.raises(RunError, match="no such folder"):
        fedsub.load(tmp_path / "none")


def test_wrong_keys_are_refused_as_on_the_command_line() -> None:
    with refused(ConfigError, "'batchsize'", "'batch-size'"):
        fedsub.run(people(), batchsize=3)
    with pytest.raises(ConfigError, match="model: got int, expected a name"):
        fedsub.run(people(), model=3)


def test_a_module_is_trained_from_its_weights_and_stays_as_it_is(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    run = fedsub.run(people(), "fedavg", beside="", model=module, out=str(tmp_path), lr=1e-9, **OWN)
    x, _ = people()["01"]
    model = run.model("01")
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])
        # Hardly trained, for such is the rate: everybody began with these weights.
        assert torch.allclose(model._model.params[name], tensor, atol=1e-5)
    again = fedsub.load(run.folder, model=module)
    assert isinstance(again, fedsub.Run)
    assert np.array_equal(again.model("01")(x), model(x))


def _built(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(input_shape[0], 3), nn.Tanh(), nn.Linear(3, classes))


def test_numbers_are_read_without_a_model_that_lay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    made = fedsub.run(people(), "fedavg", beside="", model=model, out=str(tmp_path), **OWN)
    classes = made.model("01").classes
    monkeypatch.delitem(sys.modules, "fedsub_given")  # as in another process
    found = fedsub.load(made.folder)
    assert isinstance(found, fedsub.Run)
    assert len(found.people) == 4 and set(found.metrics["class"]) == {"", *classes}
    with pytest.raises(RunError, match="takes it once more"):
        found.model("01")


def test_a_builder_may_be_any_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a run without progress prints nothing."""
    for model in (_built, lambda shape, classes: _built(shape, classes)):
        run = fedsub.run(people(), "fedavg", beside="", model=model, out=str(tmp_path), **OWN)
        assert run.model("01")(people()["01"][0]).shape == (40, 2)
    assert capsys.readouterr().out == ""


def test_methods_are_compared_over_seeds(tmp_path: Path) -> None:
    """In one process, as the model lies in its memory; and read again from the folder."""
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    found = fedsub.compare(
        people(),
        ["local", "fedavg"],
        2,
        seeds=[0, 1],
        tune={"lr": [0.01, 0.1]},
        model=module,
        folder=tmp_path / "study",
        progress=False,
    )
    assert set(found.table.index) == {"local", "fedavg"}
    assert found.table.loc["fedavg", "tuned"] in ("lr=0.01", "lr=0.1")
    assert len(found.people) == 2 * 2 * 4 and set(found.people["person"]) == set(people())
    means = found.people.groupby("row")["macro_f1"].mean()
    assert found.table.loc["local", "macro_f1"] == pytest.approx(means["local"])
    assert "macro_f1" in found._repr_html_()


def test_public_names_are_there_and_nothing_is_imported_before(tmp_path: Path) -> None:
    assert set(dir(fedsub)) == set(fedsub.__all__)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        fedsub.runn  # noqa: B018
    said = "import sys, fedsub; print({'torch', 'pandas', 'numpy', 'duckdb'} & set(sys.modules))"
    command = [sys.executable, "-c", said]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "set()\n"


def test_a_methods_own_settings_may_be_none() -> None:
    assert flat_settings({"fedsub_ridge": {}, "batch_size": 8}) == {"batch-size": 8}
    assert flat_settings({"fedsub_ridge": {"heads": "own"}}) == {"fedsub-ridge.heads": "own"}


def test_methods_to_compare_may_be_one_text(tmp_path: Path) -> None:
    """As `beside` of a run: not letter by letter."""
    with pytest.raises(ConfigError, match="unknown method 'lokal'"):
        fedsub.compare(people(), "lokal,fedavg", 1, folder=tmp_path / "study", progress=False)
