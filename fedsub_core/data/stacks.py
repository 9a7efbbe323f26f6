"""Stacks: many clients' data as one tensor with a leading client axis.

Images of bytes and token ids stay as they are kept until a batch is made of them: :func:`inputs`.
Of a graph a stack holds every node, samples first: :mod:`fedsub_core.data.graphs`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.samples import Samples
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.encoder import FULL, scaled
from fedsub_core.models.model import Params
from fedsub_core.pytorch import HERE, F, Tensor, as_tensor, torch, zeros

Made = TypeVar("Made")


@dataclass(frozen=True)
class Stack:
    """Samples of several clients, padded to the longest.

    Parameters
    ----------
    clients : ids, in the order of the first axis.
    x : float32 [clients, samples, *features], what a model sees; or uint8 of images, int32 of token
        ids and int8 of an encoder's levels, of which :func:`inputs` makes that.
    y : int64 [clients, samples], labels; of a target float32, places in its range
    counts : samples each client really has; the rest is padding (zeros).
    capacities : share of the encoder or model that each client can hold, in (0, 1]; () is 1.
    copies : int64 [clients, samples], equal where two samples of a client are the same; None where
        all differ.
    scale : float32 [clients, 2, channels], mean and deviation that bytes of `x` are standardised
        by; None of others.
    context : rows of each client after its samples that a model must see beside them, without
        labels: other nodes and edges of its graph; () of all else. Nobody learns from them.
    """

    clients: tuple[str, ...]
    x: Tensor
    y: Tensor
    counts: tuple[int, ...]
    capacities: tuple[float, ...] = ()
    copies: Tensor | None = None
    scale: Tensor | None = None
    context: tuple[int, ...] = ()

    @property
    def valid(self) -> Tensor:
        """Bool [clients, samples]: True where a sample is real."""
        if isinstance(self.y, np.ndarray):
            return np.arange(self.y.shape[1]) < np.array(self.counts)[:, None]
        positions = torch.arange(self.y.shape[1], device=self.y.device)
        return positions < torch.tensor(self.counts, device=self.y.device).unsqueeze(1)

    def of_class(self, classes: int = -1) -> Tensor:
        """Return 1 at the class of each sample, else 0, int64 ``[clients, samples, classes]``.

        0 where padded; -1: as many classes as there are.
        """
        return F.one_hot(self.y, classes) * self.valid.unsqueeze(2)

    def class_counts(self, classes: int = -1) -> Tensor:
        """Return each client's number of samples of each class, int64 ``[clients, classes]``."""
        return self.once(("class counts", classes), lambda: self.of_class(classes).sum(1))

    def once(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """Return a value that `make` makes of the samples: made once, as they never change.

        `what` names it. It must not hold the stack itself, nor may anybody write to it.
        """
        kept: dict[Hashable, object] = self.__dict__.setdefault("_kept", {})
        if what not in kept:
            kept[what] = make()
        return cast(Made, kept[what])

    def place_in_class(self) -> Tensor:
        """Return how many samples of its class come before each, int64 ``[clients, samples]``."""
        before = self.of_class().cumsum(1) - 1
        return before.gather(2, self.y.unsqueeze(2)).squeeze(2)

    def holds(self, classes: int) -> Tensor:
        """Return the mask of classes of which clients have samples, bool ``[clients, classes]``."""
        if isinstance(self.y, np.ndarray):
            return ((self.y[..., None] == np.arange(classes)) & self.valid[..., None]).any(1)
        held = torch.zeros(len(self.y), classes + 1, dtype=torch.bool, device=self.y.device)
        # Padding goes into a column of its own.
        return held.scatter_(1, self.y.where(self.valid, classes), True)[:, :classes]

    def select(self, index: Sequence[int]) -> Stack:
        """Return the clients at `index`, in that order."""
        rows = torch.tensor(list(index), device=self.x.device)
        return Stack(
            tuple(self.clients[i] for i in index),
            self.x.index_select(0, rows),
            self.y.index_select(0, rows),
            tuple(self.counts[i] for i in index),
            tuple(self.capacities[i] for i in index) if self.capacities else (),
            None if self.copies is None else self.copies.index_select(0, rows),
            None if self.scale is None else self.scale.index_select(0, rows),
            tuple(self.context[i] for i in index) if self.context else (),
        )

    def first_copies(self) -> Tensor:
        """Return where the first sample that is the same stands, int64 ``[clients, samples]``."""
        places = torch.arange(self.y.shape[1], device=self.y.device).expand_as(self.y)
        if self.copies is None:
            return places
        beyond = int(self.copies.max()) + 1  # padding is like nothing else
        same, order = self.copies.where(self.valid, beyond + places).sort(dim=1, stable=True)
        begins = torch.ones_like(same, dtype=torch.bool)
        begins[:, 1:] = same[:, 1:] != same[:, :-1]
        first = order.gather(1, torch.where(begins, places, 0).cummax(1).values)
        return torch.empty_like(first).scatter_(1, order, first)

    def part(self, chosen: Tensor) -> Stack:
        """Return the samples of each client that are `chosen`, bool [clients, samples], in order.

        Who has none chosen keeps none; padding is never to be chosen. Nodes that are not chosen
        become context.
        """
        counts = chosen.sum(1)
        longest = chosen.shape[1] if self.context else max(1, int(counts.max()))
        order = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, :longest]
        real = torch.arange(order.shape[1], device=order.device) < counts.unsqueeze(1)
        x = taken(self.x, order)
        # Padding of texts is a text, for one of no word is none; of a graph all nodes stay.
        if x.dtype != torch.int32 and not self.context:
            x *= real.view(*real.shape, *[1] * (x.ndim - 2))
        copies = None if self.copies is None else taken(self.copies, order)
        y, counted = taken(self.y, order) * real, tuple(counts.tolist())
        context = tuple(
            of + had - now for of, had, now in zip(self.context, self.counts, counted, strict=False)
        )
        return replace(self, x=x, y=y, counts=counted, copies=copies, context=context)


def inputs(x: Tensor, scale: Tensor | None = None) -> Tensor:
    """Return a model's inputs of the samples of a stack, ``[clients, n, ...]``.

    Floats as they are, token ids as int64, bytes as float32, standardised, and levels as shares of
    their full scale, exact.

    Parameters
    ----------
    scale : the stack's, of these clients.
    """
    if isinstance(x, np.ndarray):
        return scaled(x) if x.dtype == np.int8 else x
    if x.dtype == torch.uint8:
        assert scale is not None
        mean, std = (one.view(len(x), 1, -1, *[1] * (x.ndim - 3)) for one in scale.unbind(1))
        return x.to(torch.float32).sub_(mean).div_(std)
    if x.dtype == torch.int8:
        return x.to(torch.float32).div_(FULL)
    return x if x.is_floating_point() else x.to(torch.int64)


def stack(
    clients: Sequence[str],
    xs: Sequence[Samples],
    ys: Sequence[NDArray[Any]],
    device: str | torch.device = "cpu",
    capacities: Sequence[float] = (),
    block: int = 1,
    scalings: Sequence[Scaling | None] = (),
    context: Sequence[Samples] = (),
) -> Stack:
    """Stack each client's ``x [n, *features]`` and ``y [n]``, padded with zeros to whole blocks.

    Token ids are padded with the client's first text: some models cannot see one without words.
    `scalings` are what each client's samples are standardised with, where they are bytes;
    `context` are the rows that a model sees beside each client's samples, where it needs some.
    """
    counts = tuple(len(y) for y in ys)
    beside = tuple(len(rows) for rows in context)
    rows = map(sum, zip(counts, beside, strict=True)) if beside else counts
    longest = -(-max(*rows, 1) // block) * block
    kind = xs[0].dtype
    x = zeros((len(xs), longest, *xs[0].shape[1:]), kind)
    y = zeros((len(xs), longest), ys[0].dtype)
    for i, (one_x, one_y) in enumerate(zip(xs, ys, strict=True)):
        x[i, : counts[i]] = as_tensor(one_x)
        if kind == np.int32:
            x[i, counts[i] :] = x[i, :1]
        if beside:
            x[i, counts[i] : counts[i] + beside[i]] = as_tensor(context[i])
        y[i, : counts[i]] = as_tensor(one_y)
    scale = None
    if kind == np.uint8:
        both = [np.stack([one.mean, one.std]) for one in scalings if one is not None]
        scale = as_tensor(np.stack(both))
    if HERE:
        x, y = x.to(device), y.to(device)
        scale = None if scale is None else scale.to(device)
    stacked = Stack(tuple(clients), x, y, counts, tuple(capacities))
    return replace(stacked, scale=scale, context=beside)


def with_copies(data: Stack, copies: Sequence[NDArray[np.int64] | None]) -> Stack:
    """Return the stack with what of each client is the same, int64 [n]; None where all differ."""
    if all(one is None for one in copies):
        return data
    marked = as_tensor(np.tile(np.arange(data.y.shape[1]), (len(data.y), 1)))
    for row, one in enumerate(copies):
        if one is not None:
            marked[row, : len(one)] = as_tensor(one)
    return replace(data, copies=marked.to(data.y.device) if HERE else marked)


def select_params(params: Params, index: Sequence[int]) -> Params:
    """Return the parameters (or any stacked tensors) of the clients at `index`, copied."""
    if not HERE:
        return {name: t[list(index)] for name, t in params.items()}
    rows = torch.tensor(list(index), dtype=torch.int64)
    return {name: t.index_select(0, rows.to(t.device)) for name, t in params.items()}


def per_client(values: Tensor, like: Tensor) -> Tensor:
    """Return `values` ``[clients]``, one for each client's part of `like` ``[clients, ...]``."""
    shape = (-1, *[1] * (like.ndim - 1))
    if isinstance(values, np.ndarray):
        return values.reshape(shape)
    return values.to(like.device).view(shape)


def taken(tensor: Tensor, order: Tensor) -> Tensor:
    """Return of each client the samples at its `order`, ``[clients, n, ...]``.

    `tensor` is ``[clients, samples, ...]``, `order` int64 ``[clients, n]``.
    """
    first = torch.arange(len(tensor), device=order.device) * tensor.shape[1]
    # Copies whole samples, a few times as fast as indexing with two indices.
    rows = tensor.flatten(0, 1).index_select(0, (first.unsqueeze(1) + order).flatten())
    return rows.view(*order.shape, *tensor.shape[2:])
