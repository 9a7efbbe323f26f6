"""Federations of real images, texts and graphs, cut from the pieces beside the real federations.

And a model of texts as a user writes it.
"""

import csv
import io
import lzma
import re
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import Tokens

TOPICS = ("World", "Sports", "Business", "Sci/Tech")
VOCABULARY, LENGTH, PADDING = 4096, 48, 0


def digits(folder: Path, people: int = 10, each: int = 60) -> Federation:
    """Return people who hold MNIST's digits, uint8 [n, 1, 28, 28], of five classes each."""
    with np.load(folder / "images/mnist20k.npz") as file:
        x, y = file["x"][:, None], file["y"].astype(np.int64)
    card = Card(
        "digits", "digit recognition", tuple(map(str, range(10))), ("grey",), sample="image"
    )
    return _dealt(card, x, y, people, each, classes=5)


def photographs(folder: Path, people: int = 10, each: int = 40) -> Federation:
    """Return people who hold CIFAR-10's pictures, uint8 [n, 3, 32, 32], of five classes each."""
    with np.load(folder / "images/cifar10.npz") as file:
        offsets, y, classes = file["offsets"], file["y"].astype(np.int64), file["classes"]
        wanted = np.sort(
            np.concatenate([np.flatnonzero(y == c)[: people * each] for c in range(10)])
        )
        jpeg = file["jpeg"]
        images = [_picture(jpeg[offsets[i] : offsets[i + 1]]) for i in wanted]
    card = Card("photographs", "objects", tuple(map(str, classes)), ("red", "green", "blue"))
    return _dealt(card, np.stack(images), y[wanted], people, each, classes=5)


def news(folder: Path, people: int = 10, each: int = 120) -> Federation:
    """Return people who hold AG News' texts as ids of words and of hashed bigrams."""
    text = lzma.decompress((folder / "text/ag_news_test.csv.xz").read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text)))
    x = np.stack([ids(f"{title} {said}") for _, title, said in rows])
    y = np.array([int(label) - 1 for label, *_ in rows], np.int64)
    card = Card(
        "news", "topics", TOPICS, ("word",), sample="tokens", vocabulary=VOCABULARY, padding=PADDING
    )
    return _dealt(card, x, y, people, each, classes=3)


def papers(folder: Path, people: int = 10, each: int = 60) -> Federation:
    """Return people who hold neighbouring papers of Cora's, by their 64 most frequent words."""
    with np.load(folder / "graphs/cora.npz") as file:
        x = np.zeros((len(file["y"]), int(file["features"])), np.float32)
        x[np.repeat(np.arange(len(x)), np.diff(file["indptr"])), file["indices"]] = 1
        y, edges = file["y"], file["edges"].astype(np.int64)
    neighbours: list[list[int]] = [[] for _ in y]
    for a, b in np.concatenate([edges, edges[::-1]], axis=1).T:
        neighbours[a].append(int(b))
    met, queue = dict[int, None](), [0]
    for node in queue:
        if node not in met:
            met[node] = None
            queue += neighbours[node]
    words = tuple(f"word {i}" for i in range(64))
    whole = ClientData("all", x[:, np.argsort(-x.sum(0))[:64]], y, edges=edges)
    card = Card("papers", "topics", tuple("abcdefg"), words, sample="node")
    nodes, clients = np.array(list(met)), {}
    for person in range(people):
        rows, nodes = np.split(nodes, [each + 3 * person])
        clients[f"p{person:02d}"] = replace(whole.part(rows), client=f"p{person:02d}")
    return Federation(card, clients)


def ids(text: str) -> NDArray[np.int32]:
    """Return a text's first words and their bigrams as hashed ids, padded, int32 [LENGTH]."""
    words = re.findall(r"[a-z0-9]+", text.lower())[: LENGTH // 2]
    grams = [*words, *(f"{a} {b}" for a, b in pairwise(words))]
    found = np.full(LENGTH, PADDING, np.int32)
    found[: len(grams)] = [1 + zlib.crc32(g.encode()) % (VOCABULARY - 1) for g in grams]
    return found


class Reader(nn.Module):
    """A model of texts of one's own: a GRU over vectors of tokens."""

    def __init__(self, input_shape: Tokens, classes: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(input_shape.vocabulary, 8, input_shape.padding)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.last = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[batch, classes]`` of ``x [batch, length]``."""
        logits: Tensor = self.last(self.gru(self.vectors(x))[0][:, -1])
        return logits


def _picture(jpeg: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(jpeg.tobytes()))).transpose(2, 0, 1)


def _dealt(
    card: Card, x: NDArray[Any], y: NDArray[np.int64], people: int, each: int, classes: int
) -> Federation:
    """Deal samples so that no person has another's; sizes differ, so that stacks are padded."""
    left = {label: list(np.flatnonzero(y == label)) for label in range(len(card.classes))}
    clients = {}
    for person in range(people):
        held = [(person + i) % len(card.classes) for i in range(classes)]
        share = (each + 3 * person) // classes
        rows = np.array([left[label].pop() for label in held for _ in range(share)])
        name = f"p{person:02d}"
        clients[name] = ClientData(name, x[rows], y[rows])
    return Federation(card, clients)
