"""Follows the layers with units through a pass: each, and the norm and activation right behind it.

Layers are told by the tensors that PyTorch's functions are called with, so that it does not matter
whether a module or a function normalises and activates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Functions of layers with units, and on which axis of what they make the units are.
AFFINE = {"linear": -1, "conv1d": 1, "conv2d": 1, "conv3d": 1}
#: Recurrent functions, and how often a unit is on the first axis of each of their weights.
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
#: Norms, and the axis of what they normalise that their weights go by.
NORMS = {"batch_norm": 1, "instance_norm": 1, "group_norm": 1, "layer_norm": -1}
#: Functions of each number by itself.
ACTIVATIONS = frozenset({
    "relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
    "softplus", "sigmoid", "hardsigmoid", "hardswish", "logsigmoid", "log_sigmoid", "tanh",
    "prelu",
})  # fmt: skip
Function = Callable[..., Any]


class Made(NamedTuple):
    """What a layer made.

    Parameters
    ----------
    out : ``[samples, ...]``.
    axis : of the units in it.
    normed : whether a norm is right behind it already.
    """

    layer: str
    out: Tensor
    axis: int
    normed: bool = False


class Following(TorchFunctionMode, ABC):
    """While it is entered, says what each layer with units makes.

    Parameters
    ----------
    tensors : the module's, by name: the very objects that its layers compute with.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = {id(tensor): name for name, tensor in tensors.items()}
        # Whose next norm or activation is the layer's own. Held, so that no other gets its id.
        self._last: dict[int, Made] = {}

    @abstractmethod
    def made(self, made: Made, tensors: Sequence[str], new: bool, gates: int = 1) -> None:
        """Take note of what a layer made.

        Parameters
        ----------
        tensors : names of what it was computed with; () for an activation.
        new : False where this takes the place of what was made by the layer itself.
        gates : how often a unit is on the first axis of each of these tensors.
        """

    def compute(self, kind: str, func: Function, args: Any, kwargs: Any) -> Any:
        """Call a function of PyTorch's, whose name is `kind`."""
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Function, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function, and take note of what follows from a layer with units."""
        kind, kwargs = func.__name__, kwargs or {}
        x = args[0] if args else kwargs.get("input")
        before = self._last.get(id(x))
        if kind in GATES:
            return self._recurrent(kind, func, args, kwargs)
        out = self.compute(kind, func, args, kwargs)
        if kind in AFFINE:
            _, weight = named(args, kwargs, "input", "weight")
            name = self._names.get(id(weight), "")
            if name.endswith(".weight"):
                layer = name.removesuffix(".weight")
                self._note(Made(layer, out, AFFINE[kind]), self._known(args, kwargs))
        elif before is not None and kind in NORMS and _goes_by_units(before, NORMS[kind]):
            if not before.normed:
                now = before._replace(out=out, normed=True)
                self._note(now, self._known(args, kwargs), new=False)
        elif before is not None and kind in ACTIVATIONS:
            self._last.pop(id(out), None)  # in place it is the same one
            self.made(before._replace(out=out), (), False)
        elif kind == "__setitem__" or (kind.endswith("_") and not kind.endswith("__")):
            self._last.pop(id(x), None)  # it is another's now
        return out

    def _note(self, made: Made, tensors: Sequence[str], new: bool = True) -> None:
        self._last[id(made.out)] = made
        self.made(made, tensors, new)

    def _known(self, args: Any, kwargs: Any) -> list[str]:
        """Return names of the tensors among a function's arguments."""
        each = [self._names.get(id(one)) for one in (*args, *kwargs.values())]
        return [name for name in each if name is not None]

    def _recurrent(self, kind: str, func: Function, args: Any, kwargs: Any) -> Any:
        """Let layers of a recurrent stack follow each other one by one, and note each."""
        if len(args) != 9 or args[7] or not isinstance(args[2], (list, tuple)):
            return self.compute(kind, func, args, kwargs)  # bidirectional, or of packed sequences
        x, start, weights, biases, layers, _, training, _, batch_first = args
        each = len(weights) // layers
        starts = start if kind == "lstm" else (start,)
        ends = []
        for i in range(layers):
            own = list(weights[each * i : each * (i + 1)])
            first = tuple(one[i : i + 1].contiguous() for one in starts)
            hx = first if kind == "lstm" else first[0]
            one = (x, hx, own, biases, 1, 0.0, training, False, batch_first)
            x, *end = self.compute(kind, func, one, kwargs)
            names = [self._names.get(id(weight), "") for weight in own]
            layer, _, last = names[0].rpartition(".")
            if all(names) and each == 2 + 2 * biases:  # not with a projection
                place = f"{layer}.{last.rpartition('_')[2]}"
                series = x if batch_first else x.transpose(0, 1)
                self.made(Made(place, series, -1), names, True, GATES[kind])
            # Its last state is its output's last, by which relevance comes back.
            state = x[:, -1] if batch_first else x[-1]
            ends.append((state[None], *end[1:]))
        return x, *(torch.cat(of) for of in zip(*ends, strict=True))


def named(args: Any, kwargs: Any, *names: str) -> list[Any]:
    """Return a function's first arguments, by place or by name; None where there is none."""
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)]


def _goes_by_units(made: Made, axis: int) -> bool:
    return axis % made.out.ndim == made.axis % made.out.ndim
