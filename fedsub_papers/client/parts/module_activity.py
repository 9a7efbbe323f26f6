"""How much units of a module say: what the layers that read them see of them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.models.following import AFFINE, GATES, Following, Made, named
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import Member, UnitGroup
from fedsub_papers.models.slicing import slice_groups

#: Functions of layers that read units, and on which axis of what they see the units are.
READS = {
    **AFFINE,
    **{f"conv_transpose{n}d": 1 for n in (1, 2, 3)},
    **dict.fromkeys(("matmul", "__matmul__", "mm"), -1),
}
#: Recurrent functions, whose third argument has the weights by which they read their input.
RECURRENT = {*GATES, *(f"{kind}_cell" for kind in GATES)}


class Readings(Following):
    """Mean of what is read of each unit above 0, over samples and positions, of each reading.

    Parameters
    ----------
    tensors : as :class:`Following`'s.
    groups : whose units.
    often : take the share of values above 0 instead.
    """

    def __init__(self, tensors: Params, groups: Sequence[UnitGroup], often: bool) -> None:
        super().__init__(tensors)
        self.groups, self._often = {group.name: group for group in groups}, often
        self.batches: dict[str, list[Tensor]] = {name: [] for name in self.groups}
        self._readers: dict[str, list[tuple[str, Member]]] = {}
        for group in groups:
            for member in group.members:
                if member.reads:
                    self._readers.setdefault(member.tensor, []).append((group.name, member))

    def made(self, made: Made, tensors: Sequence[str], new: bool, gates: int = 1) -> None:
        """Take no note of what layers make."""

    def compute(self, kind: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Take note of what a layer reads, and call it."""
        if kind in RECURRENT:
            weights = args[2]
            self._read(args[0], weights[0] if isinstance(weights, (tuple, list)) else weights, -1)
        elif kind in READS:
            x, weight = named(args, kwargs, "input", "weight")
            self._read(x, weight, READS[kind])
        return func(*args, **kwargs)

    def _read(self, x: Tensor, weight: Tensor, axis: int) -> None:
        for name, member in self._readers.get(self._names.get(id(weight), ""), ()):
            lines = x.movedim(axis, 0).flatten(1).clamp(min=0).double()
            said = ((lines > 0).double() if self._often else lines).mean(1)
            owners = torch.from_numpy(member.owners + 1).to(said.device)  # the first is of no unit
            sums = said.new_zeros(self.groups[name].size + 1)
            each = sums.clone().index_add_(0, owners, torch.ones_like(said))
            self.batches[name].append((sums.index_add_(0, owners, said) / each)[1:])

    def means(self) -> dict[str, Tensor]:
        """Return the mean over all readings of each unit, by group."""
        return {name: torch.stack(some).mean(0) for name, some in self.batches.items() if some}


def module_activity(
    model: TorchModel, params: Params, data: Stack, block: int, often: bool
) -> dict[str, Tensor]:
    """Return a module's activity, as :func:`fedsub_papers.client.parts.activity.activity` does."""
    params = params | model.settled(params, data)
    groups, found = slice_groups(model), dict[str, list[Tensor]]()
    for i, count in enumerate(data.counts):
        own = {name: t.to(data.x.device) for name, t in model.constants.items()}
        own |= {name: t[i].detach() for name, t in params.items()}
        if data.context:  # nodes need all that they are joined to
            count = block = count + data.context[i]
        scale = None if data.scale is None else data.scale[i : i + 1]
        sums = {group.name: torch.zeros(group.size).double() for group in groups}
        for start in range(0, count, block):
            seen = Readings(own, groups, often)
            some = slice(start, min(start + block, count))
            with torch.no_grad():
                model.passes.followed(own, inputs(data.x[i : i + 1, some], scale)[0], seen)
            for name, mean in seen.means().items():
                sums[name] = sums[name].to(mean.device) + mean * (some.stop - start) / count
        for name, mean in sums.items():
            found.setdefault(name, []).append(mean)
    return {name: torch.stack(each) for name, each in found.items()}
