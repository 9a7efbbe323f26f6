"""ogbn-arxiv: 169,343 papers of computer science on arXiv, 40 categories (Hu et al. 2020).

Read from the official zip's tables, each a CSV packed by gzip and without a header: ``edge``, who
cites whom, ``node-feat``, 128 numbers a paper, the mean of its words' vectors, and ``node-label``.
The categories' names stand in the zip, too.
"""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.edges import plain_edges
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import NODE
from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_data.preparing.unpacking import unpacked_member
from fedsub_papers.preparing.graphs.linqs import CLIENT

FEATURES = 128
CLASSES = 40
_TABLES = ("edge", "node-feat", "node-label")
#: As the official file is spelt.
_NAMES = "labelidx2arxivcategeory"


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return ogbn-arxiv, float32 [papers, 128], as the client ``graph``.

    Parameters
    ----------
    source : arxiv.zip as fetched, a folder that holds it, or the folder ``arxiv`` unpacked from it.

    Raises DataError where a file is missing, damaged, empty or holds what is no number; where
    labels are not as many as papers or none of the 40, or a citation is of no paper.
    """
    wanted = (*_TABLES, _NAMES)
    expected = f"{', '.join(wanted)}, all .csv.gz, of ogbn-arxiv"
    found = find_members(source, rf"(?:.*/)?(?:{'|'.join(wanted)})\.csv\.gz", expected)
    members = {member.name.removesuffix(".csv.gz"): member for member in found}
    if missing := [name for name in wanted if name not in members]:
        raise refused(source, f"no {missing[0]}.csv.gz in it", expected)
    tables: dict[str, NDArray[Any]] = {}
    for done, (name, columns, kind) in enumerate(
        zip(_TABLES, (2, FEATURES, 1), (np.int64, np.float32, np.int64), strict=True)
    ):
        progress(done, len(_TABLES))
        tables[name] = _table(members[name], columns, kind)
    progress(len(_TABLES), len(_TABLES))
    x, y, cites = tables["node-feat"], tables["node-label"][:, 0], tables["edge"]
    if len(y) != len(x):
        raise refused(str(members["node-label"]), f"{len(y)} labels", f"{len(x)}, one a paper")
    _within(y[:, None], CLASSES, "label", members["node-label"])
    _within(cites, len(x), "paper", members["edge"])
    counts, edges = Counts(), plain_edges(cites.T)
    counts.add("papers", len(y))
    counts.add("citations", len(cites))
    counts.add("edges", edges.shape[1])
    names = tuple(f"vector {i}" for i in range(1, FEATURES + 1))
    classes = _names(members[_NAMES])
    card = Card("ogbn-arxiv", "categories of papers", classes, names, sample=NODE)
    return Prepared(Federation(card, {CLIENT: ClientData(CLIENT, x, y, edges=edges)}), counts)


def _table(member: Member, columns: int, kind: type) -> NDArray[Any]:
    try:
        with _text(member) as text:
            table: NDArray[Any] = np.loadtxt(text, kind, delimiter=",", ndmin=2, comments=None)
    except ValueError as error:
        raise refused(str(member), f"{error}", f"rows of {columns} numbers") from error
    if table.shape[1] != columns or not len(table):
        raise refused(str(member), f"a table {table.shape}", f"[rows, {columns}]")
    return table


@contextmanager
def _text(member: Member) -> Iterator[IO[str]]:
    """Open a table, which is packed by gzip inside the zip."""
    with (
        member.open() as raw,
        unpacked_member(raw, member.size(), str(member)) as file,
        io.TextIOWrapper(file, "ascii", newline="") as text,
    ):
        yield text


def _names(member: Member) -> tuple[str, ...]:
    """Return the categories' names, of rows such as ``0,arxiv cs na``."""
    try:
        with _text(member) as text:
            rows = list(csv.reader(text))[1:]  # after a header
    except csv.Error as error:
        raise refused(str(member), f"{error}", "rows of a label and its name") from error
    if [row[0] for row in rows if len(row) == 2] != list(map(str, range(CLASSES))):
        raise refused(str(member), f"{len(rows)} rows", f"labels 0 to {CLASSES - 1}, each named")
    return tuple(name for _, name in rows)


def _within(table: NDArray[np.int64], most: int, what: str, member: Member) -> None:
    """Refuse numbers of a table [rows, columns] that are none of `most`."""
    wrong = np.argwhere((table < 0) | (table >= most))
    if len(wrong):
        row, column = wrong[0]
        raise refused(str(member), f"{what} {table[row, column]}", f"0 to {most - 1}", int(row) + 1)
