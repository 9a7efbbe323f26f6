"""What the kernels are given: chains of layers, and tensors by their addresses.

Everything here works on a stack of clients, every tensor with a leading client axis. Whether the
kernels compute at all is decided before (:mod:`fedsub_core.backend`); tensors that do not fit the
model are refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.kernels import library
from fedsub_core.kernels.known import AFFINE, Known
from fedsub_core.kernels.library import Buffer, Chain, Kernels, Part, Samples, check
from fedsub_core.pytorch import Tensor
from fedsub_core.pytorch import library as library_of

Params = Mapping[str, Tensor]


@dataclass
class Call:
    """One call's structures; the tensors whose addresses they hold are kept as long."""

    kept: list[object] = field(default_factory=list)

    def place(
        self, tensor: Tensor | None, written: bool = False, of: str = "torch.float32"
    ) -> Buffer:
        """Return where a tensor's numbers lie, a client's from the next one's; None: nowhere.

        What is not `written` to is copied where a client's numbers do not lie together.

        Raises ValueError if it is of other numbers, or lies where they cannot reach or write.
        """
        if tensor is None:
            return Buffer()
        if isinstance(tensor, np.ndarray):
            return self._place_array(tensor)
        if tensor.device.type != "cpu" or str(tensor.dtype) != of:
            raise _misfit(f"{tensor.dtype} on {tensor.device}", f"{of} on cpu")
        if len(tensor) and not tensor[0].is_contiguous():
            if written:
                raise _misfit(f"strides {tensor.stride()}", "each client's numbers together")
            tensor = tensor.contiguous()
        self.kept.append(tensor)
        step, others = tensor.stride(0), max(len(tensor) - 1, 0)
        return Buffer(tensor.data_ptr(), others * step + prod(tensor[:1].shape), step)

    def _place_array(self, array: NDArray[np.float32]) -> Buffer:
        """Return where an array of NumPy lies, or a copy of it: nothing else computes with these.

        What is written to is whole: :func:`forward` makes it.
        """
        if array.dtype != np.float32:
            raise _misfit(str(array.dtype), "float32")
        array = np.ascontiguousarray(array)
        self.kept.append(array)
        return Buffer(array.ctypes.data, array.size, array[:1].size)

    @staticmethod
    def demand(tensor: Tensor, clients: int, numbers: int) -> None:
        """Demand so many numbers of each of so many clients: in C more of them are no error."""
        if len(tensor) != clients or prod(tensor[:1].shape) != numbers * min(clients, 1):
            raise _misfit(f"shape {list(tensor.shape)}", f"{numbers} numbers of {clients} clients")

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
                of_part.values = self.place(params[name], changes)
                if into is not None and given.trained:
                    self.demand(into[name], clients, one.units * wide)
                    of_part.into = self.place(into[name], True)
                for kind, tensors in (beside or {}).items():
                    if given.trained and name in tensors:
                        self.demand(tensors[name], clients, one.units * wide)
                        setattr(of_part, kind, self.place(tensors[name]))
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
        if y is not None:
            self.demand(y, len(x), x.shape[1])
        places = [one.shape[1] for one in (order, weight) if one is not None]
        for one in (order, weight):
            if one is not None:
                self.demand(one, len(x), min(places))
        many = (ctypes.c_int64 * len(counts))(*counts)
        self.kept.append(many)
        whole = [self.place(t, of="torch.int64") for t in (y, order)]
        of = len(counts), x.shape[1], min(places, default=0)
        counted = Buffer(ctypes.addressof(many), len(counts))
        return Samples(*of, counted, self.place(x), *whole, self.place(weight))


def _misfit(got: str, expected: str) -> ValueError:
    return ValueError(f"compiled kernels: got {got}, expected {expected}")


def forward(kernels: Kernels, model: Sequence[Known], params: Params, x: Tensor) -> Tensor:
    """Return outputs ``[clients, n, units * made]`` of a chain for ``x [clients, n, *features]``.

    Raises ValueError if tensors do not fit the model.
    """
    clients, samples = x.shape[:2]
    shape = clients, samples, model[-1].units * model[-1].made
    of = library_of(x)
    out: Tensor = of.empty(shape, dtype=of.float32)
    call = Call()
    chain = call.chain(model, clients, params)
    seen = call.samples(model, x, [samples] * clients)
    check(kernels.forward(chain, seen, call.place(out, True)))
    return out


def relevance_sums(
    kernels: Kernels,
    model: Sequence[Known],
    params: Params,
    x: Tensor,
    y: Tensor,
    counts: Sequence[int],
    rule: tuple[float, float] | None,
    target: bool,
) -> tuple[list[Tensor], Tensor]:
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

    Raises ValueError if tensors do not fit the model.
    """
    classes, call = model[-1].units, Call()
    affine = [layer.kind == AFFINE for layer in model]
    sums = [x.new_zeros(len(x), classes, layer.units) for layer in model if layer.kind == AFFINE]
    logits = x.new_zeros(*y.shape, classes)
    chain, samples = call.chain(model, len(counts), params), call.samples(model, x, counts, y)
    places = iter([call.place(tensor, True) for tensor in sums])
    written = (Buffer * len(model))(*(next(places) if a else Buffer() for a in affine))
    alpha, beta = rule or (0.0, 0.0)
    how = library.Relevance(
        rule is not None, alpha, beta, target, written, call.place(logits, True)
    )
    check(kernels.relate(chain, samples, how))
    return sums, logits
