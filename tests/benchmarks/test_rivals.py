"""Parts of `benchmarks/rivals.py`: heads by leave-one-out, cells of bits, files of scores."""

import csv
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("rival_heads", "rival_learners", "rival_parts", "rival_scores", "rival_sums")


@pytest.fixture(scope="module")
def part() -> Iterator[SimpleNamespace]:
    """The modules of the script by name, and its own names as ``script``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        script = runpy.run_path(str(ROOT / "benchmarks" / "rivals.py"))
        modules = {name.removeprefix("rival_"): sys.modules[name] for name in PARTS}
        yield SimpleNamespace(script=script, **modules)


@pytest.mark.parametrize("samples", [6, 30])
def test_leaving_one_out_is_fitting_without_it(samples: int, part: SimpleNamespace) -> None:
    draws = np.random.default_rng(samples)
    rows, targets = draws.normal(size=(samples, 12)), draws.normal(size=(samples, 2))
    ridge = part.heads.Ridge.of(rows, targets, np.arange(samples) % 2)
    z = part.heads.with_one(rows)
    for i in range(samples):
        kept = np.arange(samples) != i
        gram = z[kept].T @ z[kept] + ridge.penalty * np.eye(13)
        without = np.linalg.solve(gram, z[kept].T @ targets[kept])
        np.testing.assert_allclose(ridge.left_out[i], z[i] @ without, atol=1e-8)
    whole = np.linalg.solve(z.T @ z + ridge.penalty * np.eye(13), z.T @ targets)
    np.testing.assert_allclose(ridge(rows), z @ whole, atol=1e-8)


def test_noise_is_shrunk_and_what_is_certain_is_not(part: SimpleNamespace) -> None:
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(60, 5))
    noise, certain = draws.integers(0, 2, 60), (rows[:, 0] > 0).astype(int)
    penalties = [
        part.heads.Ridge.of(rows, part.heads.signs(y, 2), y).penalty for y in (noise, certain)
    ]
    assert penalties[0] > penalties[1]


def test_an_only_sample_of_a_class_sets_no_temperature(part: SimpleNamespace) -> None:
    y = np.array([*[0] * 99, 1])
    scores = np.tile([0.2, -0.2], (100, 1))
    assert part.heads.temperature(scores, y) > part.heads.MIDDLE
    assert part.heads.judged(scores, y)[0] == 0
    assert part.heads.judged(scores, np.array([*[0] * 98, 1, 1]))[0] == 2
    assert part.heads.temperature(scores[:2], np.array([0, 1])) == part.heads.MIDDLE


def test_a_samples_cell_is_named_by_its_bits(part: SimpleNamespace) -> None:
    """Of two features with a threshold at 0, in one group: bit 0 counts 1, bit 1 counts 2."""
    cells = part.sums.Cells(np.zeros(1), np.array([[0, 1]]))
    z = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(cells(z), np.eye(4))


def test_every_bit_is_in_a_group(part: SimpleNamespace) -> None:
    cells = part.sums.Cells.drawn(5, 3, 4, seed=1)
    assert cells.groups.shape == (4, 4) and cells.columns == 64
    assert set(cells.groups.ravel()) == set(range(15))
    assert cells.thresholds == pytest.approx([-0.6745, 0.0, 0.6745], abs=1e-4)
    assert (cells(np.random.default_rng(0).normal(size=(7, 5))).sum(1) == 4).all()


def test_the_nearest_samples_label_is_as_sure_as_it_is_right(part: SimpleNamespace) -> None:
    x = np.array([[0.0], [0.1], [5.0], [5.1]], np.float32)
    says = part.learners.nearest(x, np.array([0, 0, 1, 1]), 3, 0)
    sure = 1 - 1 / 6  # none of four is wrong, and one more is
    expected = [[sure, 1 / 12, 1 / 12], [1 / 12, sure, 1 / 12]]
    np.testing.assert_allclose(says(np.array([[0.3], [4.0]], np.float32)), expected)


def test_the_length_of_three_axes_does_not_turn(part: SimpleNamespace) -> None:
    draws = np.random.default_rng(3)
    x = draws.normal(size=(2, 4, 64)).astype(np.float32)
    names = ("heart", "ax", "ay", "az")
    turned = x[:, [0, 3, 1, 2]]
    here, there = (part.parts.statistics_of(of, names) for of in (x, turned))
    each = (here.shape[1] - 6) // 5
    assert here.shape[1] == 5 * each + 6
    length, heart = slice(4 * each, 5 * each), slice(0, each)
    np.testing.assert_allclose(here[:, length], there[:, length], atol=1e-9)
    np.testing.assert_allclose(here[:, heart], there[:, heart])
    assert not np.allclose(here[:, each : 2 * each], there[:, each : 2 * each])
    assert part.parts.statistics_of(x, ("heart", "pulse", "ay", "az")).shape[1] == 4 * each + 6


def test_a_row_measured_again_changes_all_differences(
    tmp_path: Path, part: SimpleNamespace
) -> None:
    file, sent = tmp_path / "people.csv.gz", {"fedsub-ridge": "sums", "trees, own": "nothing"}
    line_of, people = part.scores.line_of, part.scores.People(file)
    f1, loss = np.linspace(0.5, 0.9, 5), np.ones(5)
    people.add("t", 0, [line_of("fedsub-ridge", f1, loss, 8), line_of("trees, own", f1, loss, 0)])
    people.add("t", 1, [line_of("trees, own", f1 - 0.1, loss, 0)])
    before = file.read_bytes()
    people = part.scores.People(file)
    ours, trees = people.summary("t", sent)
    assert (ours["macro F1"], ours["seeds"], ours["bytes up"]) == ("0.700", "1", "8")
    assert (trees["macro F1"], trees["seeds"], trees["people"]) == ("0.650", "2", "5")
    # Seed 1 has no row of ours to be held against.
    difference = "less fedsub-ridge (95 %)"
    assert (ours[difference], trees[difference]) == ("", "+0.000")
    people.add("t", 0, [line_of("fedsub-ridge", f1 - 0.2, loss, 8)])
    trees = part.scores.People(file).summary("t", sent)[1]
    assert [trees[f"{difference}{end}"] for end in ("", ": low", ": high")] == ["+0.200"] * 3
    people.add("t", 0, [line_of("fedsub-ridge", f1, loss, 8)])
    assert file.read_bytes() == before


def test_rivals_without_their_package_are_left_out_by_name(
    part: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure: Any = part.script["measure"]
    table = SimpleNamespace(windows=True)
    monkeypatch.setitem(measure.__globals__, "find_spec", lambda name: None)
    monkeypatch.setitem(measure.__globals__, "Table", SimpleNamespace(of=lambda *_: table))
    args = SimpleNamespace(rows=["MiniRocket", "Hydra"], again=False)
    people = part.scores.People(None)
    measure("watch", None, {"method": "fedsub-ridge", "beside": "", "seed": 0}, people, args)
    assert not people.lines
    told = capsys.readouterr().err.splitlines()
    assert told == [f"left out: watch {name}: no package aeon" for name in args.rows]


def test_every_table_of_results_has_the_row_that_others_are_held_against(
    part: SimpleNamespace,
) -> None:
    path = ROOT / "studies" / "results" / "rivals.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["row"] for line in lines} <= set(part.script["every_row"]())
    held = {line["table"] for line in lines if line["row"] == "fedsub-ridge"}
    assert held == {line["table"] for line in lines}
    for line in lines:
        assert (line["sends"] == "nothing") == (line["bytes up"] == "0")
