"""What the kernels are given: chains of layers, and tensors by their addresses.

Everything here answers for a stack of clients, every tensor with a leading client axis, and does
nothing where the kernels do not know the model, the objective or where tensors lie: then PyTorch
computes. Which of both it is depends on the method and the model alone, never on who shares a
stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsub_core.kernels import library
from fedsub_core.kernels.known import AFFINE, Known, ends_in_classes
from fedsub_core.kernels.library import Chain, Part, Samples, kernels

Params = Mapping[str, Tensor]


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
            If it is none of the numbers that the kernels know, has not the shape that they take it
            to have, or lies where they cannot write.
        """
        if tensor is None:
            return None, 0
        if tensor.device.type != "cpu" or tensor.dtype != of:
            raise Elsewhere
        if written and len(tensor) > 1 and tensor.stride(0) < tensor[0].numel():
            raise Elsewhere  # clients share the memory
        if len(tensor) and not tensor[0].is_contiguous():
            if written:
                raise Elsewhere
            tensor = tensor.contiguous()
        self.kept.append(tensor)
        return tensor.data_ptr(), tensor.stride(0)

    @staticmethod
    def demand(tensor: Tensor, clients: int, numbers: int) -> None:
        """Demand so many numbers of each of so many clients, for nothing else is checked in C."""
        if len(tensor) != clients or tensor[:1].numel() != numbers * min(clients, 1):
            raise Elsewhere

    def chain(
        self,
        model: Sequence[Known],
        clients: int,
        params: Params,
        into: Params | None = None,
        trained: Collection[str] = (),
        written: bool = False,
        beside: Mapping[str, Params] | None = None,
    ) -> Chain:
        """Return the layers with their parameters, and what stands beside those to train them."""
        layers = (library.Layer * len(model))()
        if trained and not any(one.name in trained for one in model):
            raise Elsewhere
        for given, one in zip(layers, model, strict=True):
            given.trained = one.name in trained
            for what in ("kind", "channels", "length", "units", "made"):
                setattr(given, what, getattr(one, what))
            for what in ("kernel", "stride", "padding", "relu"):
                setattr(given, what, getattr(one, what))
            if one.kind != AFFINE:
                continue
            for part in ("weight", "bias"):
                name = f"{one.name}.{part}"
                wide = one.channels * one.kernel if part == "weight" else 1
                self.demand(params[name], clients, one.units * wide)
                of_part: Part = getattr(given, part)
                changes = written and bool(given.trained)
                of_part.values, of_part.values_step = self.place(params[name], changes)
                if into is not None and given.trained:
                    self.demand(into[name], clients, one.units * wide)
                    of_part.into, of_part.into_step = self.place(into[name], True)
                for kind, tensors in (beside or {}).items():
                    if given.trained and name in tensors:
                        self.demand(tensors[name], clients, one.units * wide)
                        address, step = self.place(tensors[name])
                        setattr(of_part, kind, address)
                        setattr(of_part, f"{kind}_step", step)
        self.kept.append(layers)
        return Chain(len(model), layers)

    def samples(
        self,
        model: Sequence[Known],
        x: Tensor,
        counts: Sequence[int],
        y: Tensor | None = None,
        order: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Samples:
        """Return samples ``x [clients, n, *features]``, classes and the order of them."""
        self.demand(x, len(counts), x.shape[1] * model[0].channels * model[0].length)
        # Of each client there are as many places as are counted, be they samples or an order's.
        for seen in (x if order is None else order, weight):
            if seen is not None and (len(seen) != len(x) or seen.shape[1] < max(counts)):
                raise Elsewhere
        if y is not None:
            least, most = y.aminmax()
            if y.shape != x.shape[:2] or least < 0 or most >= model[-1].units:
                raise Elsewhere
        many = (ctypes.c_int64 * len(counts))(*counts)
        self.kept.append(many)
        whole = [place for t in (y, order) for place in self.place(t, of=torch.int64)]
        places = *self.place(x), *whole, *self.place(weight)
        return Samples(len(counts), ctypes.cast(many, ctypes.c_void_p), *places)


class Elsewhere(Exception):
    """Tensors lie where the kernels cannot reach them, or are other than the model wants."""


def check(returned: int) -> None:
    """Raise a MemoryError if a kernel found none for a batch of samples."""
    if returned:
        raise MemoryError("no memory left for a batch of samples")


def forward(model: Sequence[Known], params: Params, x: Tensor) -> Tensor | None:
    """Return what a chain makes of ``x [clients, n, *features]``, ``[clients, n, units * made]``.

    None where it is not for the kernels.
    """
    found = kernels()
    if not (found and model) or torch.is_grad_enabled():
        return None
    clients, samples = x.shape[:2]
    out, call = x.new_empty(clients, samples, model[-1].units * model[-1].made), Call()
    try:
        chain = call.chain(model, clients, params)
        seen = call.samples(model, x, [samples] * clients)
        address, step = call.place(out, True)
    except Elsewhere:
        return None
    check(found.forward(chain, seen, address, step))
    return out


def relevance_sums(
    model: Sequence[Known],
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
    sums : one ``[clients, classes, units]`` per layer with units
    logits : ``[clients, n, classes]``, 0 where padded
    """
    found = kernels()
    never_negative = all(layer.relu for layer in model[:-1] if layer.kind == AFFINE)
    if not (found and ends_in_classes(model) and never_negative and model[0].kind == AFFINE):
        return None
    classes, call = model[-1].units, Call()
    affine = [layer.kind == AFFINE for layer in model]
    sums = [x.new_zeros(len(x), classes, layer.units) for layer in model if layer.kind == AFFINE]
    logits = x.new_zeros(*y.shape, classes)
    try:
        chain, samples = call.chain(model, len(counts), params), call.samples(model, x, counts, y)
        places = iter([call.place(tensor, True)[0] for tensor in sums])
        addresses = (ctypes.c_void_p * len(model))(*(next(places) if a else None for a in affine))
        alpha, beta = rule or (0.0, 0.0)
        how = library.Relevance(
            rule is not None, alpha, beta, target, addresses, *call.place(logits, True)
        )
    except Elsewhere:
        return None
    check(found.relate(chain, samples, how))
    return sums, logits
