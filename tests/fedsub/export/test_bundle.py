"""A bundle answers alone: in a process that can import NumPy and the model's runtime at most."""

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsub.api.models import PersonModel
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.models.kinds import build_model
from tests.fedsub.recordings.made_recordings import (
    CARD,
    made_frame,
    made_model,
    made_target_model,
)

#: Runs the program where all but these packages are refused.
ALONE = """\
import runpy, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {refused}:
            raise ImportError(f"not in this environment: {{name}}")
sys.meta_path.insert(0, Refuse())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
OURS = {"fedsub", "fedsub_core", "fedsub_data", "fedsub_client", "pandas", "duckdb", "scipy"}


def answered(program: Path, recording: Path, refused: set[str]) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE.format(refused=refused), program, recording],
        capture_output=True,
        text=True,
        cwd=os.sep,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(csv.reader(io.StringIO(done.stdout)))


def test_the_program_is_short() -> None:
    from fedsub.export import bundle

    text = Path(bundle.__file__).with_name(bundle.PROGRAM).read_text("utf-8")
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("rate", [20.0, 50.0])
@pytest.mark.parametrize("format", ["onnx", "torchscript"])
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_bundle_alone_gives_the_answers_of_predict(
    tmp_path: Path, format: str, rate: float
) -> None:
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    frame = made_frame(np.random.default_rng(6), 2500, rate)
    frame.loc[77, "acc_y"] = np.nan
    frame = frame.drop([*range(700, 760), 1500])
    frame["time"] = (1000 * frame["time"]).round().astype(int)
    frame.to_csv(tmp_path / "day.csv", index=False)
    own = PersonModel(made_model())
    place = own.export(tmp_path / "bundle", format, bundle=True)
    refused = OURS | ({"torch"} if format == "onnx" else {"onnxruntime"})
    head, *rows = answered(place / "answer.py", tmp_path / "day.csv", refused)
    expected = own.predict_recording(tmp_path / "day.csv")
    assert len(rows) == len(expected) > 40 and len(set(expected["class"])) > 1
    assert head == ["start", "end", "class", *(f"probability {name}" for name in CARD.classes)]
    np.testing.assert_allclose([float(row[0]) for row in rows], expected["start"] / 1000, atol=1e-3)
    shares = np.array([row[3:] for row in rows], np.float64)
    np.testing.assert_allclose(shares, expected[head[3:]], atol=1e-4)
    assert [row[2] for row in rows] == expected["class"].tolist()


def test_a_zip_of_a_recording_with_dates(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    frame = made_frame(np.random.default_rng(7))
    seconds = pd.to_timedelta(frame["time"], unit="s")
    frame["time"] = (pd.Timestamp("2026-03-01 08:00") + seconds).astype(str)
    frame.to_csv(tmp_path / "day.csv", index=False)
    own = PersonModel(made_model())
    place = own.export(tmp_path / "bundle.zip", bundle=True)
    with zipfile.ZipFile(place) as packed:
        assert sorted(packed.namelist()) == ["answer.py", "card.json", "model.onnx"]
        packed.extractall(tmp_path / "here")
    rows = answered(tmp_path / "here" / "answer.py", tmp_path / "day.csv", OURS | {"torch"})[1:]
    expected = own.predict_recording(tmp_path / "day.csv")
    assert [row[2] for row in rows] == expected["class"].tolist()
    assert float(rows[0][0]) == expected["start"][0].timestamp()
    card = json.loads((tmp_path / "here" / "card.json").read_text())
    assert card["units"] == "m/s^2" and card["window_rows"] == 40


def test_of_a_target_it_gives_values(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    made_frame(np.random.default_rng(8)).to_csv(tmp_path / "day.csv", index=False)
    own = PersonModel(made_target_model())
    place = own.export(tmp_path / "bundle", bundle=True)
    head, *rows = answered(place / "answer.py", tmp_path / "day.csv", OURS | {"torch"})
    expected = own.predict_recording(tmp_path / "day.csv")
    assert head == ["start", "end", "value"] == expected.columns[1:].tolist()
    values = [float(row[2]) for row in rows]
    np.testing.assert_allclose(values, expected["value"], atol=1e-2)
    assert len(rows) > 40 and expected["value"].std() > 1


def test_a_bundle_is_refused_where_it_could_not_answer(tmp_path: Path) -> None:
    from dataclasses import replace

    own = PersonModel(made_model())
    with pytest.raises(ConfigError, match="safetensors"):
        own.export(tmp_path / "bundle", "safetensors", bundle=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(RunError, match="already holds"):
        own.export(tmp_path / "full", bundle=True)
    flat = replace(made_model(), architecture=build_model("mlp", (3,), 3), scaling=None)
    with pytest.raises(ConfigError, match="windows"):
        PersonModel(flat).export(tmp_path / "bundle", bundle=True)
    assert not (tmp_path / "bundle").exists()
