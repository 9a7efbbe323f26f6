"""A person's model with all that is needed to use it, and nothing else: no run, no server."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_client.new_samples import check_distances, check_new_edges, check_samples
from fedsub_client.predictor import Predictor
from fedsub_core.data.card import Card
from fedsub_core.data.edges import Edges
from fedsub_core.data.graphs import graph_rows
from fedsub_core.data.samples import Samples
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.standardised import seen
from fedsub_core.errors import DataError, RunError
from fedsub_core.methods.table import method
from fedsub_core.models.model import Model, Params
from fedsub_core.models.unbuilt import Unbuilt
from fedsub_core.pytorch import HERE, as_numpy, as_tensor, softmax, torch

log = logging.getLogger("fedsub")

#: Samples in one forward pass: a convolution's patches are several times the size of its input.
BATCH = 1024


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A person's model as it is evaluated, exported and used.

    Parameters
    ----------
    client, method : whose it is, and how it was trained.
    round : the last one that it was trained in.
    params : without a client axis, by their names in the architecture.
    architecture : of the model, or of each where the predictor has several; it sees what the
        encoder makes of a sample. What was read from a file and is not built yet computes nothing.
    kind : what that architecture is called; never ``auto``.
    card : classes, features and units of the data it was trained on.
    scaling : what samples, and an encoder's features, are standardised with; None where they are
        not.
    described : what the method's own predictor said of itself; None: the model predicts alone.
    encoder : what makes features of standardised samples; None: the architecture sees these.
    stay_s : mean time that a class lasts in the person's training samples, s; None: not known.
    """

    client: str
    method: str
    round: int
    params: Params
    architecture: Model | Unbuilt
    kind: str
    card: Card
    scaling: Scaling | None
    described: Mapping[str, Any] | None = None
    encoder: Encoder | None = None
    stay_s: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, with what its numbers are."""
        if self.encoder is not None:
            return self.encoder.input_shape
        return self.architecture.input_shape

    @property
    def predicts(self) -> type[Predictor]:
        """The kind of predictor that the parameters belong to.

        Raises ConfigError where it is a method's own, which is not installed here.
        """
        if self.described is None:
            return Predictor
        kind: type[Predictor] = method(self.method).load_predictor()
        return kind

    @cached_property
    def predictor(self) -> Predictor:
        """The predictor that computes with the parameters."""
        if isinstance(self.architecture, Unbuilt):
            raise RunError(f"client {self.client!r}: its model {self.kind!r} is not built yet")
        return self.predicts.described(self.architecture, self.described or {})

    def probabilities(
        self, x: NDArray[Any], source: str = "x", edges: NDArray[Any] | None = None
    ) -> NDArray[np.float32]:
        """Return the probability of every class, ``[n, classes]``; each row sums to 1.

        Of a target these are its values in the card's unit, ``[n, 1]``. Rows that are far from all
        that the model was trained on are said in a warning of the log ``fedsub``.

        Parameters
        ----------
        x : float or integer [n, *features]
            In the card's units, not standardised; images of bytes and token ids are integers.
        source : str
            Where `x` comes from, for the messages.
        edges : integer [2, m]
            Of a graph's nodes, rows of `x` that are joined; [2, 0] where none are.

        Raises DataError where `x` does not fit the model: shape, type, a value that is not finite,
        or all rows far from the training data. Where `edges` are none of a graph's.
        """
        where = f"{source}: client {self.client!r}"
        x = check_samples(x, self.card, self.shape, where)
        joined = check_new_edges(edges, x, self.shape, where)
        size = BATCH if joined is None else len(x)  # a graph is seen whole
        starts = range(0, len(x), size)
        shares = np.concatenate([self._forward(x[i : i + size], joined) for i in starts])
        wrong = np.flatnonzero(~np.isfinite(shares).all(axis=1))
        if len(wrong):
            raise DataError(
                f"{where}: x, row {wrong[0]}: got values of up to {np.abs(x[wrong[0]]).max():g}, "
                f"for which no prediction is finite; expected {self.card.units or 'the units'} of "
                "the training data. Check the units."
            )
        if (
            self.scaling is not None
            and x.dtype != np.uint8
            and (far := check_distances(x, self.card, self.scaling, where, joined is not None))
        ):
            log.warning("%s", far)
        return shares

    def _forward(self, x: Samples, edges: Edges | None) -> NDArray[np.float32]:
        # An overflow ends in a prediction that is not finite, which is refused.
        with np.errstate(over="ignore"):
            ids = x.dtype == np.int32
            made = x.astype(np.int64) if ids else seen(x, self.scaling, self.encoder)
            if edges is not None:
                features = made.astype(np.float32, copy=False)
                made = np.concatenate(graph_rows(features, edges, np.arange(len(x))))
        params = {name: tensor[None] for name, tensor in self.params.items()}
        with torch.inference_mode() if HERE else nullcontext():
            logits = self.predictor.forward(params, as_tensor(made)[None])[0, : len(x)]
            if self.card.target is not None:
                return self.card.target.values(as_numpy(logits)).astype(np.float32)[:, None]
            probabilities: NDArray[np.float32] = as_numpy(softmax(logits))
        return probabilities
