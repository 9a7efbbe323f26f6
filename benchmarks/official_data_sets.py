"""Official-looking files of whole data sets, made of the real pieces beside the real federations.

Each data set says what its files are filled with. Where its own samples are too few they are there
several times; where there are none, others of the same form stand in. Times and memory are those of
the official layout and size; scores on them mean nothing.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsub_papers.preparing.graphs import citeseer, cora, ogbn_arxiv
from fedsub_papers.preparing.pictures import pacs
from fedsub_papers.tests.official_files import graphs, pictures, texts
from tests.official_files import signals

#: Clients of sets of images and texts.
CLIENTS = 100
DEALT = ("--kind", "dirichlet-balanced", "--set", f"clients={CLIENTS}", "--set", "alpha=0.3")
#: Of a hundred clients a round asks ten.
FEW = ("--clients-per-round", "10")
CUT = ("--kind", "subgraphs", "--set", "clients=10")


@dataclass(frozen=True)
class DataSet:
    """How one data set's official files are made, and what a user then types.

    Parameters
    ----------
    name : as ``fedsub data prepare`` has it.
    content : what the files are filled with, in words.
    make : writes them into an empty folder, given the real data's folder and the size as a share of
        the official one, and returns what ``--source`` is.
    settings : of ``fedsub data prepare``.
    partition : of ``fedsub data partition``; empty where people or domains are the clients.
    run : further options of ``fedsub run``.
    title : where two rows are of one data set.
    """

    name: str
    content: str
    make: Callable[[Path, Path, float], Path | None]
    settings: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    title: str = ""


def _some(count: int, share: float) -> int:
    return max(round(count * share), 40)


def _mnist(folder: Path, real: Path, share: float) -> Path:
    return pictures.mnist(folder, real, _some(60_000, share), _some(10_000, share))


def _cifar10(folder: Path, real: Path, share: float) -> Path:
    x, y = pictures.photographs(real, _some(60_000, share))
    return pictures.cifar10(folder / "cifar-10-python.tar.gz", x, y)


def _photographs(real: Path, train: int, test: int) -> tuple[pictures.Labelled, pictures.Labelled]:
    x, y = pictures.photographs(real, train + test)
    return (x[:train], y[:train]), (x[train:], y[train:])


def _cifar100(folder: Path, real: Path, share: float) -> Path:
    parts = _photographs(real, _some(50_000, share), _some(10_000, share))
    return pictures.cifar100(folder / "cifar-100-python.tar.gz", *parts)


def _svhn(folder: Path, real: Path, share: float) -> Path:
    return pictures.svhn(folder, *_photographs(real, _some(73_257, share), _some(26_032, share)))


def _usps(folder: Path, real: Path, share: float) -> Path:
    parts = []
    for count, of_train in ((7_291, True), (2_007, False)):
        x, y = pictures.digits(real, _some(count, share), of_train)
        parts.append((pictures.made_smaller(x, 16), y))
    return pictures.usps(folder, *parts)


def _tiny_imagenet(folder: Path, real: Path, share: float) -> Path:
    bodies = [
        body
        for domain in range(len(pacs.DOMAINS))
        for found in pictures.styles(real, domain).values()
        for body in found
    ]
    ids = [f"n{i:08d}" for i in range(max(2, round(200 * share)))]
    rows = np.resize(np.arange(len(bodies)), (len(ids), 550))
    each = [[bodies[row] for row in some] for some in rows]
    words = "".join(f"{one}\tthing {i}\n" for i, one in enumerate(ids))
    files = pictures.tiny_imagenet(ids, words, [e[:500] for e in each], [e[500:] for e in each])
    return pictures.tiny_imagenet_zip(folder / "tiny-imagenet-200.zip", files)


def _pacs(folder: Path, real: Path, share: float) -> Path:
    each = None if share == 1 else 10
    return pictures.pacs(folder, real, pacs.DOMAINS, pacs.CLASSES, each, size=227)


def _ag_news(folder: Path, real: Path, share: float) -> Path:
    rows = texts.news(real)
    train, test = _some(120_000, share), _some(7_600, share)
    again = [rows[i % len(rows)] for i in range(train)]
    return texts.ag_news(folder / "ag_news_csv", again, rows[:test])


def _cora(folder: Path, real: Path, share: float) -> Path:
    return _linqs(folder, real, "cora", cora.CLASSES, share)


def _citeseer(folder: Path, real: Path, share: float) -> Path:
    return _linqs(folder, real, "citeseer", citeseer.CLASSES, share)


def _linqs(folder: Path, real: Path, name: str, topics: tuple[str, ...], share: float) -> Path:
    graph = graphs.papers(real, name)
    return graphs.packed(graphs.linqs(folder, name, graph, topics, _some(len(graph.y), share)))


def _ogbn_arxiv(folder: Path, real: Path, share: float) -> Path:
    """Cora again and again, with words mixed to 128 numbers, and citations among the copies."""
    papers, citations = _some(169_343, share), _some(1_166_243, share)
    graph, rng = graphs.papers(real, "cora"), np.random.default_rng(0)
    size = len(graph.y)
    copies = -(-papers // size)
    mixed = graph.x @ rng.normal(size=(graph.x.shape[1], ogbn_arxiv.FEATURES))
    mixed /= graph.x.sum(axis=1, keepdims=True).clip(1)
    lines = [",".join(f"{v:.6f}" for v in row) for row in mixed]
    within = np.concatenate([graph.edges.T + size * copy for copy in range(copies)])
    within = within[(within < papers).all(axis=1)]
    # A citation inside Cora, moved to another copy of the cited paper not far away.
    drawn = within[rng.integers(len(within), size=citations)]
    drawn[:, 1] += size * rng.integers(1, 9, size=citations)
    edges = np.concatenate([within, drawn[drawn[:, 1] < papers]])[:citations]
    y = [(graph.y[i % size] + 7 * (i // size)) % ogbn_arxiv.CLASSES for i in range(papers)]
    tables = {
        "raw/node-feat.csv.gz": "".join(f"{lines[i % size]}\n" for i in range(papers)),
        "raw/node-label.csv.gz": "".join(f"{label}\n" for label in y),
        "raw/edge.csv.gz": "".join(f"{a},{b}\n" for a, b in edges.tolist()),
        "mapping/labelidx2arxivcategeory.csv.gz": graphs.arxiv_categories(ogbn_arxiv.CLASSES),
    }
    return graphs.arxiv(folder / "arxiv.zip", tables)


def _people(real: Path, name: str, share: float) -> dict[int, tuple[list[int], signals.Floats]]:
    """Return everybody's labels and windows [n, channels, time] of a federation."""
    people = {}
    for path in sorted((real / name / "clients").glob("*.npz")):
        with np.load(path) as file:
            y, x = file["y"], file["x"].astype(np.float64)
        rows = slice(None) if share == 1 else slice(0, max(12, round(len(y) * share)))
        people[int("".join(filter(str.isdigit, path.stem)))] = (y[rows].tolist(), x[rows])
    return people


def _uci_har(folder: Path, real: Path, share: float) -> Path:
    people = _people(real, "uci-har", share)
    place = folder / "UCI HAR Dataset"
    signals.uci_har(place, {p: ([one + 1 for one in y], x) for p, (y, x) in people.items()})
    archive = shutil.make_archive(str(folder / "UCI HAR Dataset"), "zip", folder, place.name)
    shutil.rmtree(place)
    return Path(archive)


def _wisdm(folder: Path, real: Path, share: float) -> Path:
    from fedsub_data.preparing.wisdm.raw import CLASSES  # pandas: only where it is made

    people = {
        p: ([CLASSES[one] for one in y], x)
        for p, (y, x) in _people(real, "wisdm-windows", share).items()
    }
    return signals.wisdm_raw(folder / "WISDM_ar_v1.1_raw.txt", people)


def _wisdm_transformed(folder: Path, real: Path, share: float) -> Path:
    name = "WISDM_ar_v1.1_transformed.arff.xz"
    return Path(shutil.copy(real / "wisdm-official" / name, folder / name))


def _watch(folder: Path, real: Path, share: float) -> None:
    """Write nothing: it is part of the installation."""


_DATA_SETS = (
    DataSet("mnist", "its own, each 3.5 times", _mnist, partition=DEALT, run=FEW),
    DataSet("cifar10", "its own, each 2.4 times", _cifar10, partition=DEALT, run=FEW),
    DataSet("cifar100", "CIFAR-10's", _cifar100, partition=DEALT, run=FEW),
    DataSet("tiny-imagenet", "PACS', 64 x 64", _tiny_imagenet, partition=DEALT, run=FEW),
    DataSet("svhn", "CIFAR-10's", _svhn, partition=DEALT, run=FEW),
    DataSet("usps", "MNIST's, made smaller", _usps, partition=DEALT, run=FEW),
    DataSet("digits", "from MNIST, each 3.5 times", _mnist),
    DataSet("pacs", "its own, enlarged to 227 x 227", _pacs),
    DataSet("ag-news", "its own, each 17 times", _ag_news, partition=DEALT, run=FEW),
    DataSet("cora", "its own, whole", _cora, partition=(*CUT, "--set", "by=louvain")),
    DataSet("citeseer", "its own, whole", _citeseer, partition=(*CUT, "--set", "by=louvain")),
    DataSet("ogbn-arxiv", "Cora's, each 63 times", _ogbn_arxiv, partition=CUT),
    DataSet("uci-har", "its own, whole", _uci_har),
    DataSet("wisdm", "its own, 85 %", _wisdm),
    DataSet(
        "wisdm",
        "its own, whole",
        _wisdm_transformed,
        settings=("features=transformed",),
        title="wisdm-transformed",
    ),
    DataSet("watch", "its own, whole", _watch),
)
DATA_SETS = {one.title or one.name: one for one in _DATA_SETS}
#: What cannot be made of the real pieces, and why.
LEFT_OUT = {
    "wesad": "the chest's signals are not among the shared data; see wesad_wrist.py for the wrist",
    "dreamt": "no night is among the shared data; see wesad_wrist.py for a made one",
    "hhar": "no recording of it is among the shared data",
    "pamap2": "no recording of it is among the shared data",
}
