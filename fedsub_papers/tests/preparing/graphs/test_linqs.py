"""Cora and CiteSeer as LINQS has them, rebuilt from their real papers: faults are named by line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import Prepared
from fedsub_data.preparing.preparers import prepare
from fedsub_papers.preparing.graphs import citeseer, cora
from fedsub_papers.preparing.options import GraphOptions
from fedsub_papers.tests.official_files.graphs import linqs, packed, papers

CLASSES = {"cora": cora.CLASSES, "citeseer": citeseer.CLASSES}
#: Papers and words that are looked at.
PAPERS, WORDS = 300, 200


def written(folder: Path, data: Path, name: str) -> Path:
    """Write the first papers of a set as its two official files."""
    return linqs(folder, name, papers(data, name), CLASSES[name], PAPERS, WORDS)


def made_of(source: Path, out: Path, name: str = "cora", words: str = "shares") -> Prepared:
    return prepare(name, source, out, GraphOptions(words), 1, lambda done, total: None)


def refusal(source: Path) -> str:
    out = source.with_name("out")
    with pytest.raises(DataError) as caught:
        made_of(source, out)
    assert not out.exists()
    return str(caught.value)


def test_real_papers_become_a_graph(tmp_path: Path, real_data: Path) -> None:
    source = packed(written(tmp_path, real_data, "cora"))
    made = made_of(source, tmp_path / "out")
    back = read_federation(tmp_path / "out")
    assert back.card.sample == "node" and back.card.classes == cora.CLASSES
    graph = back.clients["graph"]
    assert graph.x.shape == (PAPERS, WORDS) and graph.edges is not None
    has_words = graph.x.sum(1) > 0
    np.testing.assert_allclose(graph.x.sum(1)[has_words], 1, rtol=1e-6)
    with np.load(real_data / "graphs/cora.npz") as file:
        inner = (file["edges"] < PAPERS).all(axis=0)
        assert graph.edges.tolist() == file["edges"][:, inner].tolist()
        assert graph.y.tolist() == file["y"][:PAPERS].tolist()
    assert made.counts["edges"] == inner.sum() > 50
    # Of an unpacked folder, of the folder above it, of 0 and 1: the same papers.
    binary = made_of(tmp_path, tmp_path / "binary", words="binary").federation.clients["graph"]
    assert set(np.unique(binary.x)) == {0, 1}
    assert ((binary.x > 0) == (graph.x > 0)).all() and binary.y.tolist() == graph.y.tolist()


def test_papers_without_a_line_are_left_out(tmp_path: Path, real_data: Path) -> None:
    made = made_of(written(tmp_path, real_data, "citeseer"), tmp_path / "out", "citeseer")
    counts = made.counts
    assert counts["papers"] == PAPERS - 15
    assert counts["citations of papers without words"] > 0
    assert counts["papers without an edge"] > 0
    assert counts["edges"] == counts["citations"] - counts["citations of papers without words"]


def put(line: int, text: str) -> Callable[[Path, str], None]:
    def change(folder: Path, ending: str) -> None:
        path = folder / f"cora.{ending}"
        lines = path.read_text().splitlines()
        lines[line - 1] = text.replace("...", "\t".join(lines[line - 1].split("\t")[1:-1]))
        path.write_text("\n".join(lines) + "\n")

    return change


@pytest.mark.parametrize(
    ("ending", "change", "why"),
    [
        ("content", put(3, "x\t...\tPoetry"), r"line 3: got topic 'Poetry', expected one of Case"),
        ("content", put(2, "paper0\t...\tTheory"), "line 2: got paper 'paper0' a second time"),
        ("content", put(4, "x\t1\tTheory"), "line 4: got 1 words, expected 200 as on the first"),
        ("content", put(1, "x\t2\tTheory"), "line 1: got word '2', expected 0 or 1"),
        ("content", lambda folder, _: (folder / "cora.content").write_text(""), "got no paper"),
        ("cites", put(5, "paper1"), "line 5: got 1 fields, expected two papers with a tab"),
        ("cites", lambda folder, _: (folder / "cora.cites").unlink(), "got no cora.cites in it"),
    ],
)
def test_what_is_not_the_official_layout_is_refused(
    ending: str, change: Callable[[Path, str], None], why: str, tmp_path: Path, real_data: Path
) -> None:
    folder = written(tmp_path, real_data, "cora")
    change(folder, ending)
    assert why.split("(")[0] in refusal(folder)


def test_damaged_and_other_files_are_refused(tmp_path: Path, real_data: Path) -> None:
    path = packed(written(tmp_path, real_data, "cora"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-2000])
    assert "damaged or was truncated" in refusal(path)
    path.write_bytes(whole[:-4] + b"\0\0\0\0")
    assert "damaged or was truncated" in refusal(path)
    (tmp_path / "empty").mkdir()
    assert "got a folder without it, expected the archive of cora" in refusal(tmp_path / "empty")
