"""``--json``: one document on standard output, whatever else a command says."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.commands.as_json import print_json
from fedsub.commands.models import EXAMPLES
from fedsub_core.methods.table import METHODS
from fedsub_core.options import describe

from .calls import Call, assert_refused


def document(result: tuple[int, str, str]) -> Any:
    """Return what a command printed that went well."""
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def test_a_run_then_its_predictions(fedsub: Call, town_folder: Path) -> None:
    asked = ("--data", town_folder, "--method", "fedavg", "--beside", "local", "--rounds", 1)
    result = fedsub("run", *asked, "--json")
    said = document(result)
    folder = Path(said["folder"])
    kept = json.loads((folder / "summary.json").read_text())
    assert {key: said[key] for key in kept} == kept and said["report"] is None
    assert list(said["methods"]) == ["fedavg", "local"]
    # What is printed without --json, and how far it is, stands beside.
    assert "local: 1 of 1 rounds" in result[2] and f"Run folder: {folder}" in result[2]

    person = sorted(path.stem for path in (town_folder / "clients").iterdir())[0]
    x = np.load(town_folder / "clients" / f"{person}.npz")["x"][:3]
    np.savez("new.npz", x=x)
    new = ("--client", person, "--input", "new.npz")
    code, out, err = fedsub("predict", *new)
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    said = document(fedsub("predict", *new, "--json"))
    assert (said["client"], said["method"], said["round"]) == (person, "fedavg", 1)
    assert [one["class"] for one in said["predictions"]] == [row["class"] for row in rows]
    for one, row in zip(said["predictions"], rows, strict=True):
        wanted = [float(row[f"probability {name}"]) for name in said["classes"]]
        assert one["probabilities"] == pytest.approx(wanted)
    both = fedsub("predict", *new, "--json", "--output", "a.csv")
    assert_refused(both, "got --json and --output")


def test_all_that_is_said_of_methods(fedsub: Call) -> None:
    said = {one["name"]: one for one in document(fedsub("methods", "--json"))}
    assert list(said) == list(METHODS)
    for name, card in METHODS.items():
        keys = [f"{name}.{option.key}" for option in describe(card.hyperparameters)]
        assert [one["key"] for one in said[name]["hyperparameters"]] == keys
        assert said[name]["facts"]["when to choose it"].endswith(card.choose[1:])
    (ditto,) = document(fedsub("methods", "ditto", "--json"))
    assert ditto == said["ditto"] and ditto["epochs_of_a_round"] == 2
    defaults = {one["key"]: one["default"] for one in ditto["hyperparameters"]}
    assert defaults["ditto.lam"] == 1.0


def test_a_models_size_and_tensors(fedsub: Call) -> None:
    (mlp,) = document(fedsub("models", "mlp", "--json"))
    assert (mlp["numbers"], mlp["sample"]) == (69_638, list(EXAMPLES["mlp"]))
    assert mlp["tensors"]["linear1.weight"] == [128, 3]


def test_cards_of_data_sets(fedsub: Call) -> None:
    cards = {one["name"]: one for one in document(fedsub("data", "list", "--json"))}
    assert cards["watch"] == document(fedsub("data", "show", "watch", "--json"))
    assert cards["watch"]["source"]["licence"] == "BSD-3-Clause"


def test_what_is_no_number_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": ("é", None, True)})
    assert json.loads(capsys.readouterr().out) == {
        "a": None,
        "b": [None, 1.5],
        "c": ["é", None, True],
    }
