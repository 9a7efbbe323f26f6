"""A look at a federation: who has what, how alike people are in a class, what a split must mind."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import card_table
from fedsub_core.data.federation import Card, ClientData, Federation, by_ends
from fedsub_core.data.findings import findings, how_split, repeats
from fedsub_core.data.samples import FEATURES, IMAGE, NODE, TOKENS, WINDOW, Samples
from fedsub_core.data.splits import split_kind
from fedsub_core.data.standardise import apply, moments, pool, scaling
from fedsub_core.seeds import derive_seed
from fedsub_data.evolution import Arrival, arrivals
from fedsub_data.inspection.hopkins import hopkins
from fedsub_data.inspection.timing import Timing, inspect_timing

FloatArray = NDArray[np.float64]

#: Texts are compared by their tokens' remainders by it; and so many windows or images are looked at
#: at a time.
REMAINDERS, _AT_A_TIME = 64, 1024
_BY_AXES = {2: FEATURES, 3: WINDOW, 4: IMAGE}


@dataclass(frozen=True, eq=False)
class Inspection:
    """The contents of a federation: who has what, and how alike people are.

    Parameters
    ----------
    card : the federation's card.
    seed : seed of the Hopkins statistic's draws.
    shape : of one sample: (F,) features, (F, time) raw windows, (F, height, width) images or
        (length,) token ids.
    kind : what a sample is: :data:`fedsub_core.data.samples.KINDS`.
    words : tokens of a text without padding, on average; None of other samples.
    edges, isolated : of graphs: edges of all clients, and nodes without one; None of other samples.
    counts : int64 [clients, classes], samples.
    prototypes : float64 [clients, classes, F or 2 F]
        Mean features of each person's class, in standard deviations of the federation from its
        mean; nan where a person lacks the class. Raw windows and images count as each channel's
        mean and standard deviation over time or pixels, texts as shares of hashed tokens.
    similarity : float64 [classes, clients, clients]
        Cosine of two people's prototypes of a class; nan where one of them lacks it.
    hopkins : tuple of float or None, per class
        Over the samples of all people; None below ten distinct ones.
    timing : windows in time.
    arrivals : by round; empty where every client has all its samples from the start.
    repeated : int64 [clients], samples that are the same as an earlier one of the client.
    splits : in words how ``split = "auto"`` divides each client's samples.
    warnings : what leaks in a run with ``split = "auto"``, and what else bends its results.
    """

    card: Card
    seed: int
    shape: tuple[int, ...]
    kind: str
    words: float | None
    edges: int | None
    isolated: int | None
    clients: tuple[str, ...]
    counts: NDArray[np.int64]
    prototypes: FloatArray
    similarity: FloatArray
    hopkins: tuple[float | None, ...]
    timing: Timing
    arrivals: tuple[Arrival, ...]
    repeated: NDArray[np.int64]
    splits: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def shares(self) -> FloatArray:
        """Share of each class in a client's samples, [clients, classes]; rows sum to 1."""
        shares: FloatArray = self.counts / self.counts.sum(axis=1, keepdims=True)
        return shares

    @property
    def mean_similarity(self) -> tuple[float | None, ...]:
        """Per class the mean similarity of two different people; None below two of them."""
        means: list[float | None] = []
        for matrix in self.similarity:
            pairs = matrix[np.triu_indices(len(matrix), k=1)]
            pairs = pairs[np.isfinite(pairs)]
            means.append(float(pairs.mean()) if len(pairs) else None)
        return tuple(means)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON has them: nan is None, similarities have four decimals."""
        return {
            "card": card_table(self.card),
            "seed": self.seed,
            "shape": list(self.shape),
            "sample": self.kind,
            "words": self.words,
            "edges": self.edges,
            "isolated": self.isolated,
            "clients": list(self.clients),
            "counts": self.counts.tolist(),
            "shares": self.shares.round(4).tolist(),
            "samples": int(self.counts.sum()),
            "samples_per_class": self.counts.sum(axis=0).tolist(),
            "people_per_class": (self.counts > 0).sum(axis=0).tolist(),
            "hopkins": list(self.hopkins),
            "hopkins_exponent": "one",
            "mean_similarity": list(self.mean_similarity),
            "similarity": _plain(self.similarity.round(4).tolist()),
            "timing": asdict(self.timing) | {"warnings": list(self.timing.warnings)},
            "arrivals": [asdict(arrival) for arrival in self.arrivals],
            "repeated": self.repeated.tolist(),
            "splits": list(self.splits),
            "warnings": list(self.warnings),
        }


class Look:
    """A look at clients one after another, of which it keeps no more than the page compares."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[NDArray[np.float32], int]] = {}

    def see(self, client: ClientData, card: Card) -> None:
        """Look at one client's samples."""
        if card.sample == TOKENS:
            tokens = int((client.x != card.padding).sum())
            self._seen[client.client] = token_features(client.x, card.padding), tokens
        else:
            self._seen[client.client] = window_features(client.x), 0

    def inspection(
        self, federation: Federation, seed: int = 0, resampled: Sequence[str] = ()
    ) -> Inspection:
        """Return the inspection of `federation`, all of whose clients were seen.

        `resampled` are sentences on people whose signals an import resampled, for the warnings.
        It may be outlines (:meth:`fedsub_core.data.client_data.ClientData.outline`). Equal for an
        equal `seed`, whatever the order of clients. A target's values count for the nearer end.
        """
        federation = by_ends(federation)
        card, clients = federation.card, list(federation.clients.values())
        features, tokens = zip(*(self._seen[name] for name in federation.clients), strict=True)
        scale = scaling(pool([moments(x) for x in features]))
        people = list(zip(features, clients, strict=True))
        prototypes = np.stack(
            [_prototypes(apply(scale, x), c.y, len(card.classes)) for x, c in people]
        )
        timing = inspect_timing(federation)
        graphs = [(len(c.y), c.edges) for c in clients if c.edges is not None]
        samples = sum(len(c.y) for c in clients)
        return Inspection(
            card=card,
            seed=seed,
            shape=card.shape_of(clients[0].x),
            kind=card.sample or _BY_AXES[clients[0].x.ndim],
            words=sum(tokens) / samples if card.sample == TOKENS else None,
            edges=sum(edges.shape[1] for _, edges in graphs) if card.sample == NODE else None,
            isolated=sum(nodes - len(np.unique(edges)) for nodes, edges in graphs)
            if card.sample == NODE
            else None,
            clients=tuple(federation.clients),
            counts=np.stack([np.bincount(c.y, minlength=len(card.classes)) for c in clients]),
            prototypes=prototypes,
            similarity=_similarity(prototypes),
            hopkins=tuple(
                hopkins(
                    np.concatenate([apply(scale, x[c.y == label]) for x, c in people]),
                    derive_seed(seed, "", 0, f"hopkins {label}"),
                )
                for label in range(len(card.classes))
            ),
            timing=timing,
            arrivals=arrivals(clients),
            repeated=np.array([repeats(data) for data in clients], np.int64),
            splits=tuple(how_split(data, card, split_kind("auto", data, card)) for data in clients),
            warnings=(*timing.warnings, *findings(federation, "auto"), *resampled),
        )


def inspect_federation(federation: Federation, seed: int = 0) -> Inspection:
    """Return a federation's inspection; equal for an equal `seed`, whatever the clients' order."""
    look = Look()
    for data in federation.clients.values():
        look.see(data, federation.card)
    return look.inspection(federation, seed)


def window_features(x: Samples) -> NDArray[np.float32]:
    """Return ``x [n, F]`` itself, or of windows and images each channel's mean and std [n, 2 F]."""
    if x.ndim == 2:
        return x.astype(np.float32, copy=False)
    # A few at a time: deviations are taken of float64.
    parts = np.array_split(x, -(-len(x) // _AT_A_TIME))
    return np.concatenate([_channel_features(part) for part in parts])


def token_features(x: Samples, padding: int | None) -> NDArray[np.float32]:
    """Return the shares of ``x [n, length]``'s ids that have each remainder by `REMAINDERS`."""
    shares = np.empty((len(x), REMAINDERS), np.float32)
    for row, text in zip(shares, x, strict=True):
        real = text[text != padding]
        row[:] = np.bincount(real % REMAINDERS, minlength=REMAINDERS) / len(real)
    return shares


def _channel_features(x: Samples) -> NDArray[np.float32]:
    axes = tuple(range(2, x.ndim))
    parts = [x.mean(axis=axes, dtype=np.float64), x.std(axis=axes, dtype=np.float64)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _prototypes(x: NDArray[np.float32], y: NDArray[np.int64], classes: int) -> FloatArray:
    rho = np.full((classes, x.shape[1]), np.nan)
    for label in np.unique(y):
        rho[label] = x[y == label].astype(np.float64).mean(axis=0)
    return rho


def _similarity(prototypes: FloatArray) -> FloatArray:
    rho = prototypes.transpose(1, 0, 2)
    length = np.linalg.norm(rho, axis=2, keepdims=True)
    direction = np.divide(rho, length, out=np.full_like(rho, np.nan), where=length > 0)
    cosine: FloatArray = np.clip(direction @ direction.transpose(0, 2, 1), -1, 1)
    return cosine


def _plain(values: Any) -> Any:
    """Return nested lists with None for nan, which JSON does not have."""
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return None if values != values else values
