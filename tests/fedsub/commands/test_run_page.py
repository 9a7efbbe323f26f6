"""What a terminal warned of stands beside the table of the page, and how the run was done."""

import json
from html import unescape
from pathlib import Path

import pytest

from fedsub.report.report import write_report

from .calls import Call
from .test_run_data import one_signal, run_of

QUICK = ("--rounds", "2", "--threads", "1", "--device", "cpu")
SOFT = """
from math import prod
from torch import nn

def soft(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes), nn.Softmax(1))
"""


def by_table(page: str) -> str:
    """Return what the section of methods says before its first table."""
    return page.partition('<h2 id="methods">')[2].partition("<table")[0]


@pytest.mark.usefixtures("blank_figures")
def test_warnings_and_the_record(fedsub: Call, tmp_path: Path) -> None:
    data = one_signal(tmp_path / "noise")
    Path("m.py").write_text(SOFT)
    Path("run.toml").write_text('split = "stratified"\nmodel = "m.py:soft"\nunseen-share = 0.5\n')
    alone = (
        "--data",
        data,
        "--method",
        "fedavg",
        "--beside",
        "fedsub-ridge",
        "--model",
        "m.py:soft",
    )
    folder, out = run_of(fedsub("run", "run.toml", *alone, *QUICK))
    warned = (
        "Windows overlap, and those of all 3 clients are divided at random",
        "model m.py:soft: its outputs are probabilities that sum to 1, as of a softmax",
        "unseen-share = 0.5 does nothing for fedavg, fedsub-ridge: nobody is held out",
    )
    shown = unescape(write_report(folder)[0].read_text("utf-8"))
    page = by_table(shown)
    assert all(f"Warning: {text}" in out and text in page for text in warned)
    assert "Split: at random in each class, for everybody." in page
    done = json.loads((folder / "summary.json").read_text())["done"]
    for said in (
        "Data: noise, 3 people, samples of 3 x 64 numbers, 3 classes.",
        "Model trained by fedavg: m.py:soft, 579 numbers: Flatten(",
        "Model solved for by fedsub-ridge: linear, 1,665 numbers: Linear(",
        "features of the encoder kernels:100+statistics",
        "On a device fedsub-ridge computes: ridge regression in closed form",
    ):
        assert said in done["paragraph"] and said in shown
    assert done["models"]["fedavg"]["layers"][-1] == "Softmax(dim=1)"
    assert done["models"]["fedsub-ridge"]["kind"] == "linear"


@pytest.mark.usefixtures("blank_figures")
def test_an_option_of_a_file_that_does_nothing_is_named(fedsub: Call, tmp_path: Path) -> None:
    """The file may be meant for other methods, too; what the command line gives is refused."""
    data = one_signal(tmp_path / "noise")
    Path("run.toml").write_text("lr = 0.1\n")
    alone = ("--data", data, "--method", "fedsub-ridge", "--beside", "")
    folder, out = run_of(fedsub("run", "run.toml", *alone, *QUICK))
    said = "lr = 0.1 does nothing for fedsub-ridge: nothing is trained in steps."
    page = unescape(write_report(folder)[0].read_text("utf-8"))
    assert f"Warning: {said}" in out and said in by_table(page)
    assert "lr = 0.1 (does nothing here)" in page and "sgd" not in page
