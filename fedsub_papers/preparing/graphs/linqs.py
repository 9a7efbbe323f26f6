"""The graphs of LINQS: papers with binary words and a topic, and who cites whom, as plain text.

``NAME.content`` has a line a paper, fields between tabs: its id, 0 or 1 for each word, its topic.
``NAME.cites`` has a line a citation: the cited paper's id and the citing one's. The graph that is
prepared is one client, ``graph``: ``fedsub data partition --kind subgraphs`` cuts it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.edges import plain_edges
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import NODE
from fedsub_data.preparing.members import damaged, each_file
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused, text_lines
from fedsub_data.preparing.unpacking import DAMAGED
from fedsub_papers.preparing.options import GraphOptions

CLIENT = "graph"
_TAR = (".tar.gz", ".tgz", ".tar")


def prepare_linqs(
    name: str, classes: Sequence[str], source: Path, options: GraphOptions, progress: Progress
) -> Prepared:
    """Return a graph of LINQS, float32 [papers, words], as the client ``graph``.

    Parameters
    ----------
    source : the archive as fetched, a folder that holds it, or the folder unpacked from it.

    Raises DataError where a file is missing, there twice, damaged or not UTF-8; at a paper of
    another number of words than the first, or with what is no 0 or 1; at an unknown topic, a paper
    that is there twice, or a citation of other than two papers.
    """
    wanted = (f"{name}.content", f"{name}.cites")
    papers, cites = _Papers(classes), list[tuple[str, str]]()
    left = set(wanted)
    progress(0, len(wanted))
    for file_name, where, file, _ in each_file(_located(source, name, wanted[0]), wanted):
        if file_name not in left:
            raise refused(where, f"a second {file_name}", "one of that name")
        left.remove(file_name)
        try:
            if file_name == wanted[0]:
                papers.read(file, where)
            else:
                cites = _citations(file, where)
        except DAMAGED as error:
            raise damaged(where, error) from error
        progress(len(wanted) - len(left), len(wanted))
    if left:
        raise refused(source, f"no {min(left)} in it", f"{' and '.join(wanted)}; is it whole?")
    counts = Counts()
    edges = _edges(cites, papers.number, counts)
    x = papers.features(options)
    y = np.array(papers.labels, np.int64)
    counts.add("papers", len(y))
    counts.add("edges", edges.shape[1])
    counts.add("papers without an edge", len(y) - len(np.unique(edges)))
    words = tuple(f"word {i}" for i in range(1, x.shape[1] + 1))
    card = Card(name, "topics of papers", tuple(classes), words, options.units, sample=NODE)
    client = ClientData(CLIENT, x, y, edges=edges)
    return Prepared(Federation(card, {CLIENT: client}), counts)


class _Papers:
    """Papers as they are read: their places by id, and the words of each."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = {one: i for i, one in enumerate(classes)}
        self.number: dict[str, int] = {}
        self.labels: list[int] = []
        self.words: list[NDArray[np.uint8]] = []

    def read(self, file: IO[bytes], where: str) -> None:
        """Take over the lines of a file of papers."""
        for line, text in text_lines(file, where):
            paper, *words, topic = text.split("\t") if "\t" in text else (text, "")
            if topic not in self.classes:
                expected = f"one of {', '.join(self.classes)}"
                raise refused(where, f"topic {topic[:40]!r}", expected, line)
            if paper in self.number:
                raise refused(where, f"paper {paper!r} a second time", "each once", line)
            if self.words and len(words) != len(self.words[0]):
                expected = f"{len(self.words[0])} as on the first line"
                raise refused(where, f"{len(words)} words", expected, line)
            if strange := set(words) - {"0", "1"}:
                raise refused(where, f"word {min(strange)[:20]!r}", "0 or 1", line)
            self.number[paper] = len(self.labels)
            self.labels.append(self.classes[topic])
            self.words.append(np.array(words, np.uint8))
        if not self.words:
            raise refused(where, "no paper", "one on each line")

    def features(self, options: GraphOptions) -> NDArray[np.float32]:
        """Return the papers' words as features, [papers, words]."""
        x = np.stack(self.words).astype(np.float32)
        if options.words == "shares":
            x /= np.maximum(x.sum(axis=1, keepdims=True), 1)
        return x


def _citations(file: IO[bytes], where: str) -> list[tuple[str, str]]:
    cites = []
    for line, text in text_lines(file, where):
        ends = text.split("\t")
        if len(ends) != 2 or not all(ends):
            raise refused(where, f"{len(ends)} fields", "two papers with a tab between", line)
        cites.append((ends[0], ends[1]))
    return cites


def _edges(
    cites: Sequence[tuple[str, str]], number: dict[str, int], counts: Counts
) -> NDArray[np.int64]:
    """Return who is joined to whom, int64 [2, m], and count what adds nothing."""
    known = [(number[a], number[b]) for a, b in cites if a in number and b in number]
    counts.add("citations", len(cites))
    counts.add("citations of papers without words", len(cites) - len(known))
    counts.add("citations of the paper itself", sum(a == b for a, b in known))
    return plain_edges(np.array(known, np.int64).reshape(-1, 2).T)


def _located(source: Path, name: str, content: str) -> Path:
    expected = f"the archive of {name}, or that folder"
    if source.is_dir():
        for path in (source, source / name):
            if (path / content).is_file():
                return path
        for ending in _TAR:
            if (source / f"{name}{ending}").is_file():
                return source / f"{name}{ending}"
        raise refused(source, "a folder without it", expected)
    if not source.is_file():
        raise refused(source, "no such file or folder", expected)
    return source
