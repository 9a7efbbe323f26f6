"""ogbn-arxiv's tables in their official layout, of Cora's real papers: faults name file and row."""

from pathlib import Path

import pytest

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparers import prepare
from fedsub_papers.preparing.graphs.ogbn_arxiv import CLASSES, FEATURES
from fedsub_papers.tests.official_files.graphs import arxiv, arxiv_categories, papers

PAPERS = 120
FEAT, LABEL, EDGE = (f"raw/{name}.csv.gz" for name in ("node-feat", "node-label", "edge"))
NAMES = "mapping/labelidx2arxivcategeory.csv.gz"


@pytest.fixture
def tables(real_data: Path) -> dict[str, str]:
    """Return the official tables' texts by their place in the zip."""
    x, y, edges = papers(real_data, "cora")
    edges = edges[:, (edges < PAPERS).all(axis=0)]
    rows = {FEAT: x[:PAPERS, :FEATURES] * 1.0, LABEL: y[:PAPERS, None], EDGE: edges.T}
    texts = {n: "".join(",".join(map(str, one)) + "\n" for one in t) for n, t in rows.items()}
    return texts | {NAMES: arxiv_categories(CLASSES)}


def refusal(source: Path) -> str:
    with pytest.raises(DataError) as caught:
        prepare("ogbn-arxiv", source, source.with_name("out"), NothingToChoose(), 1, print)
    assert not source.with_name("out").exists()
    return str(caught.value)


def test_tables_become_a_graph(tmp_path: Path, tables: dict[str, str]) -> None:
    source = arxiv(tmp_path / "arxiv.zip", tables)
    counts = prepare("ogbn-arxiv", source, tmp_path / "out", NothingToChoose(), 1, print).counts
    back = read_federation(tmp_path / "out")
    graph = back.clients["graph"]
    assert back.card.classes[16] == "arxiv cs 16" and len(back.card.classes) == CLASSES
    assert graph.x.shape == (PAPERS, FEATURES) and graph.edges is not None
    ends = [tuple(map(int, line.split(","))) for line in tables[EDGE].splitlines()]
    assert [tuple(pair) for pair in graph.edges.T] == sorted(ends)
    assert counts["citations"] == counts["edges"] == len(ends) > 10


@pytest.mark.parametrize(
    ("table", "line", "why"),
    [
        (LABEL, "40", "node-label.csv.gz, line 1: got label 40, expected 0 to 39"),
        (EDGE, "0,120", "edge.csv.gz, line 1: got paper 120, expected 0 to 119"),
        (FEAT, "a,b", "node-feat.csv.gz: got could not convert"),
        (FEAT, "nan" + ",0" * (FEATURES - 1), "x, row 0, feature 0 ('vector 1'): got nan"),
        (NAMES, "label\n1,arxiv cs 1", "categeory.csv.gz: got 41 rows, expected labels 0 to 39"),
    ],
)
def test_faults_name_the_table_and_the_row(
    table: str, line: str, why: str, tmp_path: Path, tables: dict[str, str]
) -> None:
    first, rest = tables[table].split("\n", 1)
    assert first != line
    changed = tables | {table: f"{line}\n{rest}"}
    assert why in refusal(arxiv(tmp_path / "arxiv.zip", changed))


def test_missing_and_truncated_tables_are_refused(tmp_path: Path, tables: dict[str, str]) -> None:
    whole = arxiv(tmp_path / "arxiv.zip", tables)
    kept = {name: text for name, text in tables.items() if name != LABEL}
    assert "no node-label.csv.gz in it" in refusal(arxiv(tmp_path / "less.zip", kept))
    lost = refusal(arxiv(tmp_path / "lost.zip", tables, cut=EDGE))
    assert "edge.csv.gz" in lost and "fetch it again" in lost
    short = tables | {LABEL: tables[LABEL].split("\n", 1)[1]}
    assert "got 119 labels, expected 120" in refusal(arxiv(tmp_path / "short.zip", short))
    (tmp_path / "cut.zip").write_bytes(whole.read_bytes()[:-100])
    assert "a damaged or truncated zip" in refusal(tmp_path / "cut.zip")
