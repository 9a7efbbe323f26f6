"""``fedsub predict`` for recordings, as a person meets it."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fedsub.cli import cli
from fedsub_client.model_file import model_bytes
from fedsub_core.errors import ConfigError, RunError
from tests.fedsub.recordings.made_recordings import (
    CARD,
    made_frame,
    made_model,
    made_target_model,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "p.safetensors").write_bytes(model_bytes(made_model()))
    return tmp_path / "p.safetensors"


@pytest.fixture
def day(tmp_path: Path) -> Path:
    frame = made_frame(np.random.default_rng(5))
    frame.to_csv(tmp_path / "day.csv", index=False)
    return tmp_path / "day.csv"


def predict(*args: object, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["predict", *map(str, args)], input=text)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_rows_on_standard_output_and_the_day_beside_it(model: Path, day: Path) -> None:
    done = predict("--state", model, "--input", day)
    assert done.exit_code == 0, done.output
    head, *rows = rows_of(done.stdout)
    assert head[:5] == ["recording", "start", "end", "class", "probability"]
    assert len(rows) == 99 and rows[1][:3] == ["day.csv", "1", "3"]
    assert {row[3] for row in rows} <= set(CARD.classes)
    for name in CARD.classes:
        assert f"  {name}" in done.stderr
    minutes = [float(line.split()[-2]) for line in done.stderr.splitlines() if " min" in line]
    assert sum(minutes) == pytest.approx(100 / 60, abs=0.15)


def test_standard_input_gives_the_same_rows(model: Path, day: Path) -> None:
    named = rows_of(predict("--state", model, "--input", day).stdout)
    piped = rows_of(predict("--state", model, "--input", "-", text=day.read_text()).stdout)
    assert [row[1:] for row in piped] == [row[1:] for row in named]


def test_a_folder_a_page_and_a_file_of_rows(model: Path, day: Path, tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for name in ("a.csv", "b & <i>.csv"):
        (folder / name).write_bytes(day.read_bytes())
    page, output = tmp_path / "day.html", tmp_path / "answers.csv"
    args = ("--state", model, "--input", folder, "--page", page, "--output", output)
    done = predict(*args, "--unknown-below", 0.7)
    assert done.exit_code == 0, done.output
    assert {row[0] for row in rows_of(output.read_text())[1:]} == {"a.csv", "b & <i>.csv"}
    assert "198 windows answered" in done.stdout
    html = page.read_text("utf-8")
    assert html.count("<svg") == 2 and "<i>" not in html and "unknown" in html
    assert "src=" not in html and "http://" not in html.replace("http://www.w3.org", "")
    again = predict(*args)
    assert isinstance(again.exception, RunError) and "--force" in str(again.exception)


def test_json_has_the_minutes_and_the_windows(model: Path, day: Path) -> None:
    found = json.loads(predict("--state", model, "--input", day, "--json").stdout)
    assert len(found["windows"]) == 99
    assert sum(found["minutes"].values()) == pytest.approx(100 / 60)
    assert found["windows"][0]["end"] == "2" and len(found["windows"][0]["probabilities"]) == 3


def test_options_of_recordings_are_refused_with_samples(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=np.zeros((2, 3, 40), np.float32))
    for option, value in (("--smooth", "10s"), ("--gap", "1s")):
        done = predict("--state", model, "--input", tmp_path / "new.npz", option, value)
        assert isinstance(done.exception, ConfigError) and option in str(done.exception)


def test_a_refused_recording_leaves_nothing(model: Path, day: Path, tmp_path: Path) -> None:
    day.write_text(day.read_text().replace("acc_y", "acc_q"))
    done = predict("--state", model, "--input", day, "--output", tmp_path / "answers.csv")
    assert "acc_y" in str(done.exception) and not (tmp_path / "answers.csv").exists()


def test_of_a_target_windows_have_values(day: Path, tmp_path: Path) -> None:
    (tmp_path / "t.safetensors").write_bytes(model_bytes(made_target_model()))
    asked = ("--state", tmp_path / "t.safetensors", "--input", day)
    done = predict(*asked)
    assert done.exit_code == 0, done.output
    head, *rows = rows_of(done.stdout)
    assert head == ["recording", "start", "end", "value"] and len(rows) == 99
    values = [float(row[3]) for row in rows]
    spread = f"pulse: from {min(values):.4g} to {max(values):.4g}, mean {np.mean(values):.4g} 1/min"
    assert spread in done.stderr
    document = json.loads(predict(*asked, "--json").stdout)
    assert (document["target"], document["unit"]) == ("pulse", "1/min")
    assert [one["value"] for one in document["windows"]] == pytest.approx(values, rel=1e-5)
    assert "classes" not in document and "minutes" not in document


@pytest.mark.parametrize(
    "given", [("--unknown-below", 0.5), ("--smooth", "10s"), ("--page", "day.html")]
)
def test_of_a_target_nothing_goes_by_classes(
    given: tuple[object, ...], day: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.safetensors").write_bytes(model_bytes(made_target_model()))
    done = predict("--state", tmp_path / "t.safetensors", "--input", day, *given)
    assert isinstance(done.exception, ConfigError) or done.exit_code == 2, done.output
    said = str(done.exception) + done.output
    assert str(given[0]).removeprefix("--") in said and "pulse" in said
