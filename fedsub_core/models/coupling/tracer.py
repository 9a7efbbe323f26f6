"""One pass through a module, every call of it seen with the units that its tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fedsub_core.errors import ConfigError
from fedsub_core.models.coupling.labels import FIXED, Labels, neutral
from fedsub_core.models.repeated import Repeated


@dataclass(frozen=True)
class Call:
    """A call in the pass: what was called, with what, and what came out."""

    name: str
    func: Callable[..., Any]
    out: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def get(self, place: int, name: str, otherwise: Any = None) -> Any:
        """Return an argument, given by place or by name."""
        if len(self.args) > place:
            return self.args[place]
        return self.kwargs.get(name, otherwise)

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that were given."""
        return list(_tensors([*self.args, *self.kwargs.values()]))

    @property
    def shape(self) -> torch.Size:
        """Shape of the first tensor that came out."""
        return next(_tensors(self.out)).shape


#: What makes numbers of Python of a tensor's values, or writes into it.
_READ = ("item", "tolist", "numpy", "bool", "int", "float", "setitem")
#: Labels of what came out: of the one tensor, of each of several, or the same for each.
Rule = Callable[["Tracer", Call], Any]


class Tracer(TorchFunctionMode):
    """Follows a pass; see :meth:`follow`.

    Attributes
    ----------
    axes : labels ``[entries]`` of axes of the module's own tensors, by name and axis.
    reading : the axes by which a layer reads units.
    blocks : name of each tensor that makes units, and their labels.
    normed : labels of what is normalised over its units.
    """

    def __init__(self, module: nn.Module, rules: dict[str, Rule]) -> None:
        super().__init__()
        self.module, self.rules, self.labels = module, rules, Labels()
        self.axes: dict[tuple[str, int], Tensor] = {}
        self.reading: set[tuple[str, int]] = set()
        self.blocks: list[tuple[str, Tensor]] = []
        self.normed: list[Tensor] = []
        own = [*module.named_parameters(), *module.named_buffers()]
        self._names = {id(tensor): name for name, tensor in own}
        self._single: dict[str, Tensor] = {}
        # Tensors are kept, so that no other gets the number of one.
        self._seen: dict[int, tuple[Tensor, Tensor]] = {}
        self._within: list[str] = [""]
        self._blocked: list[tuple[Tensor, str]] = []

    def follow(self, x: Tensor) -> None:
        """Run the module, in the mode in which it is, on samples ``x``.

        Raises ConfigError where the pass does with units what is not known, or what a part of them
        cannot do.
        """
        self._seen[id(x)] = x, torch.tensor(FIXED).expand(x.shape)
        hooks = []
        for name, layer in self.module.named_modules():
            enter = partial(lambda name, *_: self._within.append(name), name)
            hooks.append(layer.register_forward_pre_hook(enter))
            hooks.append(layer.register_forward_hook(lambda *_: self._leave()))
        try:
            with Repeated(), self, torch.no_grad():
                out = self.module(x)
        finally:
            for hook in hooks:
                hook.remove()
        self.labels.fix(self.of(out))
        made = torch.cat([torch.zeros(1, dtype=torch.int64), *(block for _, block in self.blocks)])
        for name, single in self._single.items():
            # What no layer's units met is the same for all of them.
            alone = torch.isin(self.labels.roots(single), self.labels.roots(made), invert=True)
            self.labels.fix(single[alone])
            self._place(name, single)
        for labels, why in self._blocked:
            if self.labels.units(labels):
                raise ConfigError(why)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call, and note which units came out."""
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", str(func))
        if name == "__get__":  # a property, such as x.T or x.shape
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        call = Call(name.strip("_"), func, out, args, kwargs or {})
        if call.name == "iter":
            out = list(out)
            self._note(out, self.of(args[0]).unbind())
            return iter(out)
        if next(_tensors(out), None) is None:
            if call.name in _READ:
                self.block(self.of(args[0]), f"reads or writes values of units ({call.name})")
            return out
        try:
            labels = self.rules.get(call.name, unknown)(self, call)
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            does = f"calls {call.name} as is not known ({type(error).__name__}: {error})"
            raise ConfigError(self.refusal(does)) from error
        self._note(out, labels)
        return out

    def of(self, tensor: Tensor) -> Tensor:
        """Return the labels of a tensor's values, of its shape."""
        if (seen := self._seen.get(id(tensor))) is not None:
            return seen[1]
        if (name := self._names.get(id(tensor))) is None:
            return neutral(tensor.shape)
        if name not in self._single:  # used value by value; the pass shows with what
            self._single[name] = self.labels.fresh(tensor.numel()).view(tensor.shape)
        return self._single[name]

    def makes(self, weight: Tensor, axis: int) -> Tensor:
        """Return labels of the units that a layer's weights make along an axis."""
        name = self._named(weight)
        if (name, axis) not in self.axes:
            made = self.labels.fresh(weight.shape[axis])
            self.axes[name, axis] = made
            self.blocks.append((name, made))
        return self.axes[name, axis]

    def own(self, tensor: Tensor | None, axis: int, labels: Tensor, reads: bool = False) -> None:
        """Say whose the entries of an axis of a tensor are; None is no tensor."""
        if tensor is not None:
            self._own(self._named(tensor), axis, labels, reads)

    def block(self, labels: Tensor, does: str) -> None:
        """Refuse once the pass has ended, if units are among these that can be left out."""
        if self.labels.units(labels):
            self._blocked.append((labels, self.refusal(does)))

    def named(self, tensor: Tensor) -> bool:
        """Return whether a tensor is the module's own."""
        return id(tensor) in self._names

    def refusal(self, does: str) -> str:
        """Return why units of the module are not known."""
        kind = type(self.module).__name__
        where = self._within[-1]
        layer = type(self.module.get_submodule(where)).__name__
        at = f"layer {where} ({layer})" if where else "its forward"
        return (
            f"model {kind}: {at} {does}, so that its units are not known; expected a model whose "
            "units can be followed (docs/models.md), or a method that needs none (fedavg, ditto, "
            "fedrep and others)"
        )

    def _own(self, name: str, axis: int, labels: Tensor, reads: bool) -> None:
        key = name, axis
        if key in self.axes:
            self.labels.unite(self.axes[key], labels)
        else:
            self.axes[key] = labels
        if reads:
            self.reading.add(key)

    def _place(self, name: str, labels: Tensor) -> None:
        """Say whose the values of a tensor are that was used value by value."""
        for axis in (axes := self.labels.varying(labels)):
            if len(axes) > 1 or axis > 1:
                raise ConfigError(
                    self.refusal(
                        f"uses {name} {list(labels.shape)}, whose values are units' along axes "
                        f"{sorted(axes)}; expected one of axes 0 and 1"
                    )
                )
            self._own(name, axis, self.labels.along(labels, axis), reads=False)

    def _named(self, tensor: Tensor) -> str:
        name = self._names.get(id(tensor))
        if name is None:
            raise ConfigError(self.refusal("computes with weights that the pass makes itself"))
        return name

    def _leave(self) -> None:
        self._within.pop()

    def _note(self, out: Any, labels: Any) -> None:
        if isinstance(out, Tensor):
            self._seen[id(out)] = out, labels
        elif isinstance(out, (tuple, list)):
            each = labels if isinstance(labels, (tuple, list)) else [labels] * len(out)
            for one, of in zip(out, each, strict=True):
                self._note(one, of)


def unknown(tracer: Tracer, call: Call) -> Any:
    """Refuse what is done with units; of what holds none, none come out."""
    for tensor in call.tensors:
        if tracer.labels.units(tracer.of(tensor)):
            raise ConfigError(tracer.refusal(f"computes {call.name} of units"))
    fixed = any((tracer.of(tensor) == FIXED).any() for tensor in call.tensors)
    return _alike(call.out, fixed)


def _alike(out: Any, fixed: bool) -> Any:
    if isinstance(out, Tensor):
        return torch.tensor(FIXED).expand(out.shape) if fixed else neutral(out.shape)
    if isinstance(out, (tuple, list)):
        return [_alike(one, fixed) for one in out]
    return None


def _tensors(some: Any) -> Iterator[Tensor]:
    if isinstance(some, Tensor):
        yield some
    elif isinstance(some, (tuple, list)):
        for one in some:
            yield from _tensors(one)
    elif isinstance(some, dict):
        yield from _tensors(list(some.values()))
