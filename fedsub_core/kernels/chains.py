"""What the kernels are given: chains of fully connected layers, and tensors by their addresses.

Everything here answers for a stack of clients, every tensor with a leading client axis, and does
nothing where the kernels do not know the model, the objective or where tensors lie: then PyTorch
computes. Which of both it is depends on the method and the model alone, never on who shares a
stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from fedsub_core.kernels import library
from fedsub_core.kernels.library import Chain, Dense, Part, Samples, kernels
from fedsub_core.models.layers import Affine, Flatten, Layer, Linear, ReLU

Params = Mapping[str, Tensor]


class Connected(NamedTuple):
    """A fully connected layer, and whether what it makes is rectified."""

    layer: Linear
    relu: bool


def connected(layers: Sequence[Layer | Affine]) -> tuple[Connected, ...]:
    """Return the fully connected layers that `layers` are; () where there is anything else."""
    found: list[Connected] = []
    for layer in layers:
        if isinstance(layer, Linear):
            found.append(Connected(layer, False))
        elif type(layer) is ReLU and found:
            found[-1] = Connected(found[-1].layer, True)
        elif type(layer) is not Flatten:
            return ()
    return tuple(found)


@dataclass
class Call:
    """One call's structures; the tensors whose addresses they hold are kept as long."""

    kept: list[object] = field(default_factory=list)

    def place(
        self, tensor: Tensor | None, written: bool = False, of: torch.dtype = torch.float32
    ) -> tuple[int | None, int]:
        """Return a tensor's address, and how many numbers a client's are from the next one's.

        What is not `written` to is copied where a client's numbers do not lie together.

        Raises
        ------
        Elsewhere
            If it is none of the numbers that the kernels know, or lies where they cannot write.
        """
        if tensor is None:
            return None, 0
        if tensor.device.type != "cpu" or tensor.dtype != of:
            raise Elsewhere
        if len(tensor) and not tensor[0].is_contiguous():
            if written:
                raise Elsewhere
            tensor = tensor.contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr(), tensor.stride(0)

    def chain(
        self,
        model: Sequence[Connected],
        params: Params,
        into: Params | None = None,
        trained: Collection[str] = (),
        written: bool = False,
        beside: Mapping[str, Params] | None = None,
    ) -> Chain:
        """Return the layers with their parameters, and what stands beside those to train them."""
        layers = (Dense * len(model))()
        for dense, (layer, relu) in zip(layers, model, strict=True):
            dense.fan_in, dense.units, dense.relu = layer.fan_in, layer.units, relu
            dense.trained = layer.name in trained
            for part in ("weight", "bias"):
                name = f"{layer.name}.{part}"
                given: Part = getattr(dense, part)
                changes = written and bool(dense.trained)
                given.values, given.values_step = self.place(params[name], changes)
                if into is not None and dense.trained:
                    given.into, given.into_step = self.place(into[name], True)
                for kind, tensors in (beside or {}).items():
                    if dense.trained and name in tensors:
                        if tensors[name].shape != params[name].shape:
                            raise Elsewhere
                        address, step = self.place(tensors[name])
                        setattr(given, kind, address)
                        setattr(given, f"{kind}_step", step)
        self.kept.append(layers)
        return Chain(len(model), layers)

    def samples(
        self,
        x: Tensor,
        counts: Sequence[int],
        y: Tensor | None = None,
        order: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Samples:
        """Return samples ``x [clients, n, *features]``, classes and the order of them."""
        many = (ctypes.c_int64 * len(counts))(*counts)
        self.kept.append(many)
        whole = [place for t in (y, order) for place in self.place(t, of=torch.int64)]
        places = *self.place(x), *whole, *self.place(weight)
        return Samples(len(counts), ctypes.cast(many, ctypes.c_void_p), *places)


class Elsewhere(Exception):
    """Tensors lie where the kernels cannot reach them, or of another type."""


def check(returned: int) -> None:
    """Raise a MemoryError if a kernel found none for a batch of samples."""
    if returned:
        raise MemoryError("no memory left for a batch of samples")


def forward(model: Sequence[Connected], params: Params, x: Tensor) -> Tensor | None:
    """Return what a chain makes of ``x [clients, n, *features]``, ``[clients, n, units]``."""
    found = kernels()
    if not (found and model) or torch.is_grad_enabled():
        return None
    clients, samples = x.shape[:2]
    out, call = x.new_empty(clients, samples, model[-1].layer.units), Call()
    try:
        chain, seen = call.chain(model, params), call.samples(x, [samples] * clients)
        address, step = call.place(out, True)
    except Elsewhere:
        return None
    check(found.forward(chain, seen, address, step))
    return out


def relevance_sums(
    model: Sequence[Connected],
    params: Params,
    x: Tensor,
    y: Tensor,
    counts: Sequence[int],
    rule: tuple[float, float] | None,
    target: bool,
) -> tuple[list[Tensor], Tensor] | None:
    """Return each unit's relevance summed over the samples of each class, and the logits.

    Parameters
    ----------
    x, y : samples ``[clients, n, *features]`` and their classes, of which `counts` are real.
    rule : alpha and beta of LRP; None: activations.
    target : whether LRP starts from the true class alone.

    Returns
    -------
    sums : one ``[clients, classes, units]`` per layer
    logits : ``[clients, n, classes]``, 0 where padded
    """
    found = kernels()
    if not (found and model and all(relu for _, relu in model[:-1])) or model[-1].relu:
        return None
    classes, call = model[-1].layer.units, Call()
    sums = [x.new_zeros(len(x), classes, layer.units) for layer, _ in model]
    logits = x.new_zeros(*y.shape, classes)
    try:
        chain, samples = call.chain(model, params), call.samples(x, counts, y)
        addresses = (ctypes.c_void_p * len(sums))(*(call.place(t, True)[0] for t in sums))
        alpha, beta = rule or (0.0, 0.0)
        how = library.Relevance(
            rule is not None, alpha, beta, target, addresses, *call.place(logits, True)
        )
    except Elsewhere:
        return None
    check(found.relate(chain, samples, how))
    return sums, logits
