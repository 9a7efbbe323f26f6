"""What one pass through a module shows: which layers compute, in which order, how wide they are."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.endings import ending
from fedsub_core.models.norms import batch_norms


@dataclass(frozen=True)
class LastLinear:
    """The last Linear layer that computes.

    Parameters
    ----------
    input_shape : of what it sees of a sample.
    ends : whether its output is the module's, and it sees a vector of each sample.
    """

    name: str
    input_shape: Shape
    ends: bool


@dataclass(frozen=True)
class Trace:
    """One pass through a module.

    Parameters
    ----------
    name : the module's class.
    layers : names of the layers that have trained parameters, as they computed for the last time;
        norms are none.
    last : the last Linear layer, whose input is the embedding; None where there is none.
    output_shape : of one sample.
    widest : most values of a sample that a layer saw or made.
    draws : whether a pass in training draws from PyTorch's stream, as Dropout does.
    ending : what the last step does to logits that training suffers from; "": nothing.
    """

    name: str
    layers: tuple[str, ...]
    last: LastLinear | None
    output_shape: Shape
    widest: int
    draws: bool = False
    ending: str = ""

    def require_last(self) -> LastLinear:
        """Return the last Linear layer.

        Raises ConfigError if there is none, or layers with parameters come after it.
        """
        if self.last is None or self.layers[-1] != self.last.name:
            raise ConfigError(
                f"model {self.name}: its last layer with parameters is "
                f"{self.layers[-1] if self.layers else 'none'}, expected a Linear layer, whose "
                "input is the embedding that the method needs"
            )
        return self.last

    def require_end(self, head_layers: int) -> None:
        """Refuse a head of so many layers, unless it is one Linear layer at the module's end."""
        if head_layers != 1 or not self.require_last().ends:
            raise ConfigError(
                f"model {self.name}: got a head of {head_layers} layers, expected one Linear layer "
                "at the very end of the module: a torch module is cut there alone"
            )


def traced(module: nn.Module, input_shape: Shape, classes: int) -> Trace:
    """Return the trace of a pass of two samples of zeros, in evaluation mode.

    Raises ConfigError if the module does not take such samples, or does not make a logit a class.
    """
    calls: list[tuple[str, Tensor, Tensor]] = []

    def note(name: str, layer: nn.Module, args: Any, out: Any) -> None:
        seen = next((one for one in args if isinstance(one, Tensor)), None)
        made = next((one for one in _flat(out) if isinstance(one, Tensor)), None)
        if seen is not None and made is not None:
            calls.append((name, seen, made))

    hooks = [m.register_forward_hook(partial(note, n)) for n, m in module.named_modules() if n]
    modes = {name: layer.training for name, layer in module.named_modules()}
    try:
        out = module.eval()(zeros(input_shape))
    except Exception as error:  # whatever somebody's module raises
        raise ConfigError(
            f"model {type(module).__name__}: samples of shape {input_shape} end in "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
        for name, layer in module.named_modules():
            layer.training = modes.get(name, True)
    if not isinstance(out, Tensor) or tuple(out.shape) != (2, classes):
        got = f"shape {tuple(out.shape)[1:]}" if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(
            f"model {type(module).__name__}: got outputs of {got}, expected {(classes,)}: a logit "
            "a class"
        )
    return replace(_trace(module, calls, out), draws=_draws(module, input_shape))


def zeros(input_shape: Shape, samples: int = 2) -> Tensor:
    """Return samples of zeros as a model sees them, float32; of token ids an id, int64.

    The id is not the one that fills texts up: a text of that alone is none. Of nodes it is their
    rows, without edges.
    """
    if isinstance(input_shape, Tokens):
        word = (input_shape.padding + 1) % input_shape.vocabulary
        return torch.full((samples, *input_shape), word, dtype=torch.int64)
    if isinstance(input_shape, Nodes):  # their numbers first, and no edges
        return F.pad(torch.arange(1.0, samples + 1).unsqueeze(1), (0, input_shape[0]))
    return torch.zeros(samples, *input_shape)


def _draws(module: nn.Module, input_shape: Shape) -> bool:
    before = torch.random.get_rng_state()
    # Of a copy, for statistics of norms move; parameters, which are large, do not.
    own: dict[int, Any] = {id(parameter): parameter for parameter in module.parameters()}
    try:
        copy.deepcopy(module, own).train()(zeros(input_shape))
    except Exception as error:
        raise ConfigError(
            f"model {type(module).__name__}: training on samples of shape {input_shape} ends in "
            f"{type(error).__name__}: {error}"
        ) from error
    return not torch.equal(before, torch.random.get_rng_state())


def _trace(module: nn.Module, calls: list[tuple[str, Tensor, Tensor]], out: Tensor) -> Trace:
    norms = set(batch_norms(module))
    owners = {n.rpartition(".")[0] for n, p in module.named_parameters() if p.requires_grad}
    # A layer that computes twice stands where it does so for the last time.
    order = [name for name, _, _ in reversed(calls) if name in owners - norms]
    layers = tuple(reversed(dict.fromkeys(order)))
    last = None
    for name, seen, made in calls:
        if isinstance(module.get_submodule(name), nn.Linear):
            ends = made is out and seen.ndim == 2
            last = LastLinear(name, tuple(seen.shape[1:]), ends)
    widest = max((prod(t.shape[1:]) for _, *both in calls for t in both), default=1)
    shape, name = tuple(out.shape[1:]), type(module).__name__
    flaw = ending(module, calls, out)
    return Trace(name, layers, last, shape, max(widest, prod(shape)), ending=flaw)


def _flat(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [one for part in out for one in _flat(part)]
    return [out]
