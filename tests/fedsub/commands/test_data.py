"""`fedsub data`, as a user types it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fedsub.cli import cli
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, read_federation, write_federation
from fedsub_core.errors import FedSubError
from fedsub_data.catalogue.catalogue import house_names, names
from fedsub_data.partitions.partitions import HOUSE, PARTITIONS
from fedsub_data.preparing.options import PREPARERS


def fedsub(*words: object) -> Result:
    result = CliRunner().invoke(cli, ["data", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, FedSubError | SystemExit):
        raise result.exception  # a traceback is never an answer
    return result


def error(*words: object) -> str:
    result = fedsub(*words)
    assert isinstance(result.exception, FedSubError), result.output
    return str(result.exception)


def test_every_data_set_has_a_card_and_a_preparer() -> None:
    assert house_names() == sorted(PREPARERS) and set(names()) >= set(PREPARERS)
    listed = fedsub("list").output
    for name in names():
        assert name in listed
        shown = fedsub("show", name).output
        assert "licence" in shown and "cite" in shown and "classes" in shown
    assert "features=mean (mean, stats, raw, transformed)" in fedsub("show", "wisdm").output
    assert "Did you mean 'wesad'" in error("show", "wessad")


def test_what_cannot_be_fetched_is_said_with_the_terms(tmp_path: Path) -> None:
    result = fedsub("fetch", "wisdm", "--to", tmp_path / "d")
    assert "--accept-terms" in str(result.exception) and "readme.txt" in result.output
    assert "https://physionet.org" in error("fetch", "dreamt", "--accept-terms")
    assert "comes with FedSub" in error("fetch", "watch", "--accept-terms")
    assert not (tmp_path / "d").exists()


def test_prepare_writes_a_federation_and_says_what_happened(tmp_path: Path) -> None:
    out = tmp_path / "watch"
    result = fedsub("prepare", "watch", "--out", out)
    assert result.exit_code == 0 and "10 clients, 3,605 samples" in result.output
    assert len(read_federation(out).clients) == 10
    report = json.loads((out / "preparation.json").read_text())
    assert report["counts"] == {"people": 10, "windows kept": 3605}
    assert report["data set"] == "watch" and len(report["source sha256"]) == 64
    assert "already holds something" in error("prepare", "watch", "--out", out)


def test_prepare_refuses_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "--source is missing" in error("prepare", "wisdm", "--out", out)
    missing = tmp_path / "none.txt"
    assert "no such file" in error("prepare", "wisdm", "--source", missing, "--out", out)
    bad = tmp_path / "WISDM_ar_v1.1_raw.txt"
    bad.write_text(
        "33,Jogging,49105962326000,-0.6946377,12.680544,0.50395286;\n33,Flying,1,2,3,4;\n"
    )
    said = error("prepare", "wisdm", "--source", bad, "--out", out)
    assert "WISDM_ar_v1.1_raw.txt, line 2" in said and "Flying" in said
    unknown = error("prepare", "wisdm", "--source", bad, "--out", out, "--set", "feature=mean")
    assert "Did you mean 'features'" in unknown
    assert sorted(p.name for p in tmp_path.iterdir()) == [bad.name]


@pytest.mark.parametrize(
    "kind",
    [
        *("dirichlet", "pathological", "feature-shift"),
    ],
)
def test_partition_writes_a_federation(tmp_path: Path, real_data: Path, kind: str) -> None:
    out = tmp_path / kind
    result = fedsub("partition", real_data / "wisdm", "--kind", kind, "--out", out, "--seed", 3)
    assert result.exit_code == 0 and "samples placed" in result.output
    assert "samples of a client: median" in result.output
    assert re.search(r"Labels: \d\.\d{3} nats from everybody's", result.output)
    made = read_federation(out)
    assert made.card.name == f"wisdm-{kind}" and len(made.clients) >= 30
    assert json.loads((out / "preparation.json").read_text())["seed"] == 3


@pytest.mark.parametrize(("kind", "torn"), [("pathological", True), ("natural", False)])
def test_partition_says_what_it_tears_apart(tmp_path: Path, kind: str, torn: bool) -> None:
    """Windows of the built-in watch overlap by half."""
    out = tmp_path / kind
    result = fedsub("partition", "watch", "--kind", kind, "--out", out)
    assert result.exit_code == 0, result.output
    found = re.search(
        r"Warning: of ([\d,]+) pairs of neighbours that overlap ([\d,]+) are", result.output
    )
    assert bool(found) == torn
    counts = json.loads((out / "preparation.json").read_text())["counts"]
    if found:
        pairs, apart = (int(one.replace(",", "")) for one in found.groups())
        assert 0 < apart == counts["of these pairs, given to different clients"] <= pairs


def test_all_kinds_of_partitions_are_named() -> None:
    said = " ".join(fedsub("partition", "--help").output.split())
    *first, last = HOUSE
    assert f"--kind TEXT {', '.join(first)} or {last};" in said
    assert f"Known: {', '.join(PARTITIONS)}." in error(
        "partition", "watch", "--kind", "none", "--out", "x"
    )


def test_statistics_of_windows(tmp_path: Path) -> None:
    out, windows = tmp_path / "features", tmp_path / "windows"
    x = np.arange(48, dtype=np.float32).reshape(4, 2, 6)
    person = ClientData("p", x, np.array([0, 0, 1, 1]))
    card = Card("toy", "t", ("a", "b"), ("u", "v"), "g", 6.0, None)
    write_federation(windows, Federation(card, {"p": person}))
    result = fedsub("statistics", windows, "--out", out)
    assert result.exit_code == 0 and "windows" in result.output
    made = read_federation(out)
    assert made.card.window_s == 1.0, "as windows of 6 samples at 6 Hz had"
    assert made.card.features[:3] == ("u_mean", "v_mean", "u_std")
    assert made.clients["p"].x[0].tolist()[:2] == [2.5, 8.5]
    assert "already holds something" in error("statistics", windows, "--out", out)


def test_evolve_then_inspect(tmp_path: Path) -> None:
    out, page = tmp_path / "dynamic", tmp_path / "page"
    result = fedsub("evolve", "watch", "--out", out, "--set", "every=5")
    assert "samples that come in round 6, to 6 clients" in result.output
    assert any(c.since is not None for c in read_federation(out).clients.values())
    shown = fedsub("inspect", out, "--out", page, "--json")
    assert shown.exit_code == 0 and f"Page: {page / 'report.html'}" in shown.stderr
    kept = json.loads((page / "inspection.json").read_text("utf-8"))
    assert json.loads(shown.stdout) == {"page": str(page / "report.html"), **kept}
    for name in ("report.html", "class_shares.png", "hopkins.png", "inspection.json"):
        assert (page / name).stat().st_size > 0
    assert "already holds something" in error("inspect", out, "--out", page)
    assert "expected KEY=VALUE" in error("evolve", "watch", "--out", tmp_path / "x", "--set", "5")
