"""Images and texts from the command line: inspect, run, predict, export."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.data.federation import write_federation
from fedsub_papers.tests import shapes
from tests.fedsub.commands.calls import Call

#: Of each federation: its type in an exported file, and what a look says of one sample.
CUTS = {
    "digits": (shapes.digits, "uint8", "1 x 28 x 28 channels x pixels of bytes"),
    "news": (shapes.news, "int64", "48 token ids below 4,096, padding 0, "),
}


@pytest.fixture(scope="module", params=CUTS)
def cut(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def folder(cut: str, real_data: Path, tmp_path: Path) -> Path:
    write_federation(tmp_path / "people", CUTS[cut][0](real_data, people=3, each=30))
    return tmp_path / "people"


def runtimes(file: Path, format: str) -> Callable[[Any], Any]:
    """Return the exported file as a function, read by nothing of ours."""
    if format == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(file))
        return lambda x: session.run(None, {"x": x})[0]
    import torch

    module = torch.jit.load(file)  # type: ignore[no-untyped-call]
    return lambda x: module(torch.from_numpy(x)).detach().numpy()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_they_are_trained_used_and_exported(
    fedsub: Call, cut: str, folder: Path, tmp_path: Path
) -> None:
    _, of, _ = CUTS[cut]
    runs = str(tmp_path / "runs")
    code, _, err = fedsub(
        "run", "--data", str(folder), "--method", "fedavg", "--beside", "", "--rounds", "2",
        "--out", runs,
    )  # fmt: skip
    assert code == 0, err
    (run,) = (tmp_path / "runs").iterdir()
    samples, own = str(folder / "clients" / "p01.npz"), ["--client", "p01", "--run", str(run)]
    code, out, err = fedsub("predict", *own, "--input", samples)
    assert code == 0, err
    rows = list(csv.reader(io.StringIO(out)))
    said = np.array([row[2:] for row in rows[1:]], np.float64)
    with np.load(samples) as file:
        x = file["x"]
    assert len(said) == len(x)
    for format in ("onnx", "torchscript"):
        file = tmp_path / f"model.{format}"
        code, out, err = fedsub("export", *own, "--format", format, "--output", str(file))
        assert code == 0 and f"], {of}: read back" in out, err
        found = runtimes(file, format)(x.astype(of))
        np.testing.assert_allclose(found, said, atol=1e-5)
    file = tmp_path / "model.safetensors"
    code, out, err = fedsub("export", *own, "--format", "safetensors", "--output", str(file))
    assert code == 0, err
    code, out, _ = fedsub("predict", "--state", str(file), "--input", samples)
    assert [row[:2] for row in csv.reader(io.StringIO(out))] == [row[:2] for row in rows]


def test_new_samples_of_another_kind_are_refused(
    fedsub: Call, cut: str, folder: Path, tmp_path: Path
) -> None:
    runs = str(tmp_path / "runs")
    fedsub(
        "run", "--data", str(folder), "--method", "local", "--beside", "", "--rounds", "1",
        "--out", runs,
    )  # fmt: skip
    with np.load(folder / "clients" / "p01.npz") as file:
        x = file["x"][:4]
    broken: list[tuple[Any, str]] = [
        (x / 255, "x: got float64, expected an integer type, as the model was trained on"),
        (x[..., :2], "expected [n, "),
        (x.astype(np.int64) + np.where(np.indices(x.shape).sum(0) == 0, 5000, 0), "x, row 0: got "),
        (-x.astype(np.int64) - 1, "x, row 0: got -"),
    ]
    if cut == "news":
        broken.append((x * 0, "x, row 0: got padding 0 alone, expected one token at least"))
    (run,) = (tmp_path / "runs").iterdir()
    for i, (one, said) in enumerate(broken):
        np.savez(tmp_path / f"{i}.npz", x=one)
        code, _, err = fedsub(
            "predict", "--client", "p01", "--run", str(run), "--input", str(tmp_path / f"{i}.npz")
        )
        assert code != 0 and said in " ".join(err.split()), (i, err)


def test_a_look_at_them(fedsub: Call, cut: str, folder: Path, tmp_path: Path) -> None:
    code, _, err = fedsub("data", "inspect", str(folder), "--out", str(tmp_path / "look"))
    assert code == 0, err
    page = (tmp_path / "look" / "report.html").read_text("utf-8")
    assert CUTS[cut][2] in page and "overlap of windows" not in page
    seen = json.loads((tmp_path / "look" / "inspection.json").read_text("utf-8"))
    assert seen["sample"] == ("tokens" if cut == "news" else "image")
    assert (seen["words"] is not None) is (cut == "news")
    assert seen["mean_similarity"][2] is not None, "all three hold it"


def test_an_encoder_is_refused_by_name(fedsub: Call, folder: Path, tmp_path: Path) -> None:
    for encoder in ("kernels:8", "relu:8"):
        code, _, err = fedsub(
            "run", "--data", str(folder), "--method", "fedavg", "--beside", "", "--rounds", "1",
            "--encoder", encoder, "--out", str(tmp_path / "runs"),
        )  # fmt: skip
        assert code != 0 and f"encoder: got '{encoder}' for samples of shape" in err
