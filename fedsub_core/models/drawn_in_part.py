"""A module with some of its units, drawn without ever holding the whole one.

What a weak device begins with are numbers of the whole model, which PyTorch's stream decides. So
each tensor is drawn whole, one after another, and what the device holds of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedsub_core.models.architecture import Shape

_IS_META = torch.Tensor.is_meta.__get__  # type: ignore[attr-defined]
_FILLS = (torch.ops.aten.fill_.Scalar, torch.ops.aten.zero_.default)


@dataclass(frozen=True)
class _Operation:
    """An operation without tensors in it: it made a tensor, or wrote to all of one, as `into`."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    storage: int
    into: Tensor | None

    @property
    def draws(self) -> bool:
        """Whether it draws from PyTorch's stream."""
        return torch.Tag.nondeterministic_seeded in self.func.tags

    def again(self, held: Tensor | None, room: Tensor) -> Tensor | None:
        """Do it with storage, of the whole tensor, or of what is held of it; return the tensor.

        None if it leaves numbers open. `room` [numbers] is where whole tensors are drawn.
        """
        if self.into is None:
            if self.func is torch.ops.aten.empty.memory_format:
                return None
            made: Tensor = self.func(*self.args, **self.kwargs | {"device": room.device})
            return made
        if self.draws or held is None:
            fits = self.into.dtype == room.dtype
            held = room[: self.into.numel()].view(self.into.shape) if fits else None
            held = torch.empty_like(self.into, device=room.device) if held is None else held
        self.func(held, *self.args, **self.kwargs)
        return held


class _Building(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While a module is built without storage: the operations that made its tensors, in order.

    ``computed`` are the storages whose numbers follow from other tensors. ``again`` is whether all
    that drew was noted, so that the stream can be followed.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[_Operation] = []
        self.computed: set[int] = set()
        self.again = True
        self._alive: list[Any] = []  # so that no other storage gets the number of one

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave PyTorch's compiler alone, which else is loaded here: 75 MB and seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note the operation if it makes numbers; a view makes none."""
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        seen = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        storages = {tensor.untyped_storage()._cdata for tensor in seen}
        for tensor in [one for one in tree_leaves(made) if isinstance(one, Tensor)]:
            storage = tensor.untyped_storage()
            self._alive.append(storage)
            if not seen:
                one = _Operation(func, args, kwargs, storage._cdata, None)
            elif func._schema.is_mutable:
                one = _Operation(func, args[1:], kwargs, storage._cdata, tensor.detach())
                pointwise = torch.Tag.pointwise in func.tags or func in _FILLS
                if len(seen) > 1 or not _whole(tensor) or not (one.draws or pointwise):
                    self._lost(func, storage._cdata)
                    continue
            elif storage._cdata in storages and torch.Tag.nondeterministic_seeded not in func.tags:
                continue
            else:
                self._lost(func, storage._cdata)
                continue
            self.operations.append(one)
        return made

    def _lost(self, func: Any, storage: int) -> None:
        self.computed.add(storage)
        self.again &= torch.Tag.nondeterministic_seeded not in func.tags


class _Unseen(TorchFunctionMode):
    """Lets no code see that tensors have no storage: some would draw nothing then, in silence."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer that a tensor has storage; do all else."""
        return False if func == _IS_META else func(*args, **kwargs or {})


def drawn_in_part(
    build: Callable[[Shape, int], Any],
    input_shape: Shape,
    classes: int,
    keep: Callable[[str, Tensor, Tensor], Tensor],
) -> tuple[nn.Module, dict[int, Tensor]] | None:
    """Return a module without storage, and what is kept of each of its tensors, by ``id``.

    The tensors are drawn from PyTorch's stream as it stands. None, with the stream untouched, if
    their numbers follow from more than draws and constants: then the module must be built whole.

    Parameters
    ----------
    keep : of a tensor's name, the module's tensor without storage, and the numbers, which are
        written over later: a copy of what is held.
    """
    building = _Building()
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"), _Unseen(), building:
            module = build(input_shape, classes)
    except Exception:  # whatever somebody's builder does without storage: it is built whole next
        return None
    own = {id(t): (name, t) for name, t in reversed(_named(module))}
    if not all(not is_lazy(t) and t.is_meta and _whole(t) for _, t in own.values()):
        return None
    names = {tensor.untyped_storage()._cdata: (name, tensor) for name, tensor in own.values()}
    made = {operation.storage for operation in building.operations}
    if len(names) < len(own) or names.keys() & building.computed or names.keys() - made:
        return None
    if not building.again:
        return None
    held: dict[int, Tensor] = {}
    # One room for all: blocks that come and go leave the heap full of holes.
    sizes = [one.into.numel() for one in building.operations if one.into is not None]
    room = torch.empty(max(sizes, default=0))
    for operation in building.operations:
        name = names.get(operation.storage)
        if name is None and not operation.draws:
            continue
        before = held.get(operation.storage)
        tensor = operation.again(before, room)
        if name is not None and tensor is not None and tensor is not before:
            held[operation.storage] = keep(*name, tensor)
    if any(t.untyped_storage()._cdata not in held for _, t in own.values()):
        return None  # numbers that nothing sets
    return module, {key: held[t.untyped_storage()._cdata] for key, (_, t) in own.items()}


def _named(module: nn.Module) -> list[tuple[str, Tensor]]:
    every = dict(module.named_parameters(remove_duplicate=False))
    return [*every.items(), *module.named_buffers(remove_duplicate=False)]


def _whole(tensor: Tensor) -> bool:
    """Return whether a tensor is all of its storage, in its order."""
    return tensor.is_contiguous() and len(tensor.untyped_storage()) == tensor.nbytes
