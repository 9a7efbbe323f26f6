"""Official files of graphs, rebuilt from the real papers of Cora and CiteSeer."""

import gzip
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Papers(NamedTuple):
    """A real graph: words int64 [n, words], topics int64 [n] (-1: none), and edges [2, m]."""

    x: NDArray[np.int64]
    y: NDArray[np.int64]
    edges: NDArray[np.int64]


def papers(real_data: Path, name: str) -> Papers:
    """Return Cora or CiteSeer."""
    with np.load(real_data / f"graphs/{name}.npz") as file:
        x = np.zeros((len(file["y"]), int(file["features"])), np.int64)
        x[np.repeat(np.arange(len(x)), np.diff(file["indptr"])), file["indices"]] = 1
        return Papers(x, file["y"], file["edges"].astype(np.int64))


def linqs(
    folder: Path, name: str, graph: Papers, topics: Sequence[str], most: int = 0, words: int = 0
) -> Path:
    """Write papers as the two official files of LINQS; who has no topic has no line.

    Parameters
    ----------
    folder : gets the folder `name`, which is returned.
    most, words : only so many papers, those without a topic first, and so many words; 0 is all.
    """
    order = np.argsort(graph.y >= 0, kind="stable")[: most or None]
    place = np.full(len(graph.y), -1)
    place[order] = np.arange(len(order))
    content = [
        "\t".join([f"paper{place[i]}", *map(str, graph.x[i, : words or None]), topics[graph.y[i]]])
        for i in order
        if graph.y[i] >= 0
    ]
    both = place[graph.edges.T]
    cites = [f"paper{a}\tpaper{b}" for a, b in both if a >= 0 and b >= 0]
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.content").write_text("\n".join(content) + "\n")
    (folder / name / f"{name}.cites").write_text("\n".join(cites) + "\n")
    return folder / name


def packed(folder: Path) -> Path:
    """Write a folder's archive beside it."""
    path = folder.with_suffix(".tgz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, folder.name)
    return path


def arxiv(path: Path, tables: Mapping[str, str], cut: str = "") -> Path:
    """Write ogbn-arxiv's zip of tables by their place in it; of the table `cut` the end is lost."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in tables.items():
            data = gzip.compress(text.encode(), 1)
            archive.writestr(f"arxiv/{name}", data[: len(data) // 2] if name == cut else data)
    return path


def arxiv_categories(count: int) -> str:
    """Return the table of the categories' names."""
    named = "".join(f"{i},arxiv cs {i}\n" for i in range(count))
    return "label idx,arxiv category\n" + named
