"""`fedsub report`, and the report at the end of `fedsub run`."""

from pathlib import Path

import pytest

from .calls import Call, assert_refused


@pytest.mark.usefixtures("blank_figures")
def test_a_run_ends_with_its_report_which_can_be_written_again(
    fedsub: Call, town_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = fedsub(
        *("run", "--data", town_folder, "--rounds", 2, "--threads", 1, "--report"),
        *("--beside", "local", "--set", "fedsub.k-selection=fixed:1", "--tensorboard"),
    )
    (folder,) = Path("runs").iterdir()
    page = folder / "report.html"
    assert (code, err) == (0, "")
    board = f"TensorBoard: tensorboard --logdir {folder}/tensorboard\n"
    model = "A person's model by fedsub (--method NAME for another's): fedsub predict"
    assert f"\nRun folder: {folder}\n{model} --run {folder} " in out
    assert out.endswith(f"\nReport: {page}\n{board}")
    text = page.read_text("utf-8")
    # Classes have their names, for the data lie where they lay.
    assert "fedsub: F1 of every person and class" in text and ">walk<" in text
    for method in ("fedsub", "local"):
        assert len(list((folder / "tensorboard" / method).glob("events.out.tfevents.*"))) == 1
    page.unlink()
    assert fedsub("report", folder) == (0, f"Report: {page}\n", "")
    assert page.read_text("utf-8") == text
    # The run is over: there is nothing to watch.
    store = (Path.cwd() / "mlflow").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    said = fedsub("report", folder, "--watch", "--tensorboard", "--mlflow", store)[1]
    assert said.endswith(f"Report: {page}\n{board}MLflow: experiment {folder.name}\n")
    assert page.read_text("utf-8") == text
    assert len(list(folder.glob("tensorboard/*/events.out.tfevents.*"))) == 2
    assert len(list(Path("mlflow").glob("*/*/metrics/people/macro_f1"))) == 2


def test_what_is_no_run(fedsub: Call, town_folder: Path) -> None:
    assert_refused(fedsub("report", town_folder), "give the folder of a run")
    assert_refused(fedsub("report", town_folder, "--watch"), "not a run's folder")


def test_a_tracker_that_is_not_installed_is_said_before_anything_is_trained(
    fedsub: Call, town_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    run = ("run", "--data", town_folder)
    assert_refused(fedsub(*run, "--tensorboard"), "pip install 'fedsub[tensorboard]'")
    assert_refused(fedsub(*run, "--mlflow", "sqlite:///m.db"), "pip install 'fedsub[mlflow]'")
    assert not Path("runs").exists()
