"""Units of one model brought to those of another by optimal transport (SubFLOT's base).

Source: Singh and Jaggi, Model Fusion via Optimal Transport, NeurIPS 2020: units of a layer are
moved to those of another model whose weights are nearest, the next layer's inputs with them.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.extras import require
from fedsub_core.models.architecture import Shape
from fedsub_core.models.units import Member, UnitGroup

#: Of the mean cost, how much entropy smooths a plan by Sinkhorn; and its iterations.
SMOOTH, ITERATIONS = 0.05, 100


def plan(cost: Tensor, exact: bool = True) -> Tensor:
    """Return the plan ``[n, m]`` of least cost whose rows sum to 1/n and columns to 1/m, float64.

    Parameters
    ----------
    cost : of moving a unit of n to one of m, ``[n, m]``.
    exact : by the network simplex of POT; else by Sinkhorn's iterations (Cuturi, NeurIPS 2013).
    """
    n, m = cost.shape
    if exact:
        import ot

        found = ot.emd([1 / n] * n, [1 / m] * m, cost.double().numpy(), numItermax=10**7)
        return torch.from_numpy(found)
    kernel = cost.double() / -(SMOOTH * cost.double().mean()).clamp_min(1e-300)
    rows, columns = kernel.new_zeros(n), kernel.new_zeros(m)
    for _ in range(ITERATIONS):
        rows = -(kernel + columns).logsumexp(1) - torch.tensor(float(n)).log()
        columns = -(kernel + rows.unsqueeze(1)).logsumexp(0) - torch.tensor(float(m)).log()
    return (kernel + rows.unsqueeze(1) + columns).exp()


def check_plan(exact: bool) -> None:
    """Raise ConfigError where exact plans need a package that is not installed."""
    if not exact:
        return
    try:
        require("subflot.plan = exact", "ot")
    except ConfigError as error:
        raise ConfigError(
            f"{error}, or set subflot.plan=sinkhorn, which needs no package"
        ) from error


def check_groups(groups: Sequence[UnitGroup], shapes: Mapping[str, Shape]) -> None:
    """Raise ConfigError where units cannot be compared, or not moved with all that is theirs.

    Parameters
    ----------
    shapes : of the tensors that are trained and sent.
    """
    for group in groups:
        if not _makers(group, groups, shapes):
            raise ConfigError(
                f"subflot compares units by trained weights that make them: units of {group.name} "
                "have none, as where the layer is frozen. Train it, or take heterofl"
            )
        for member in group.members:
            each = np.bincount(member.owners[member.owners >= 0], minlength=group.size)
            if len({*each}) > 1:
                raise ConfigError(
                    f"subflot moves units with all that is theirs: units of {group.name} own "
                    f"{min(each)} to {max(each)} entries of {member.tensor}, axis {member.axis}, "
                    "expected equally many. Take heterofl"
                )


def aligned(
    source: Mapping[str, Tensor],
    target: Mapping[str, Tensor],
    groups: Sequence[UnitGroup],
    like: Sequence[UnitGroup],
    keep_sums: bool = False,
    exact: bool = True,
) -> dict[str, Tensor]:
    """Return the source's tensors with as many units as the target's, each near the target's.

    From input to output: what a layer reads follows the plan of the units it reads, then its own
    units are matched by the distance of their weights and biases side by side. A new unit is the
    mean of the units that the plan brings to it, and so is all that belongs to it, as a norm's
    statistics. Inputs and outputs of the model stay as they are.

    Units of several layers that can only stay or go together have one plan, by the layers that
    make them before any layer reads them. (The paper's section 9 has a plan for each layer, and
    passes on the mean of those of branches that are added; their sums would mix units.)

    Parameters
    ----------
    source, target : the numbers of both models, by tensor.
    groups, like : the units of the source and of the target: groups of the same names, in the same
        order, with the same members. See :func:`check_groups`.
    keep_sums : whether a new unit's columns are the sum of those that they come from, so that the
        next layer sees as much; else their mean, as the paper's scaling has it.
    """
    return _Alignment(source, target, groups, like, keep_sums, exact).tensors()


class _Alignment:
    def __init__(
        self,
        source: Mapping[str, Tensor],
        target: Mapping[str, Tensor],
        groups: Sequence[UnitGroup],
        like: Sequence[UnitGroup],
        keep_sums: bool,
        exact: bool,
    ) -> None:
        self.source, self.target = source, target
        shapes = {name: tuple(tensor.shape) for name, tensor in target.items()}
        self.makers = {group.name: _makers(group, groups, shapes) for group in groups}
        self.keep_sums, self.exact = keep_sums, exact
        #: By tensor and axis: whose units own entries there, in the source and in the target.
        self.owners: dict[tuple[str, int], list[tuple[str, Member, Member]]] = {}
        for group, other in zip(groups, like, strict=True):
            for own, theirs in zip(group.members, other.members, strict=True):
                at = self.owners.setdefault((own.tensor, own.axis), [])
                at.append((group.name, own, theirs))
        self._shares: dict[str, Tensor] = {}

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the target's, the source's units brought to it."""
        return {name: self._moved(name, (1, 0)).float() for name in self.target}

    def _share(self, name: str) -> Tensor:
        """Return the plan of a group ``[n, m]``, its columns scaled to sum 1."""
        if name not in self._shares:
            rows, others = [], []
            for maker in self.makers[name]:
                theirs = next(t for of, _, t in self.owners[maker.tensor, maker.axis] if of == name)
                rows.append(_by_unit(self._moved(maker.tensor, (1 - maker.axis,)), maker))
                others.append(_by_unit(self.target[maker.tensor].double(), theirs))
            cost = torch.cdist(torch.cat(rows, 1), torch.cat(others, 1))
            self._shares[name] = plan(cost, self.exact) * cost.shape[1]
        return self._shares[name]

    def _moved(self, name: str, axes: Sequence[int]) -> Tensor:
        """Return a tensor of the source, float64, whose axes follow the plans of their units."""
        tensor = self.source[name].double()
        for axis in axes:
            if owners := self.owners.get((name, axis)):
                tensor = self._along(tensor, axis, owners, self.target[name].shape[axis])
        return tensor

    def _along(
        self, tensor: Tensor, axis: int, owners: Sequence[tuple[str, Member, Member]], length: int
    ) -> Tensor:
        """Return a tensor with `length` entries along an axis: units moved, all others kept."""
        entries = tensor.movedim(axis, 0)
        found = entries.new_zeros(length, *entries.shape[1:])
        nobodys, theirs_not = np.ones(len(entries), np.bool_), np.ones(length, np.bool_)
        for name, own, theirs in owners:
            share = self._share(name)
            if self.keep_sums and own.reads:
                share = share * (len(share) / share.shape[1])
            by_unit = entries[_entries(own)]
            moved = (share.T @ by_unit.flatten(1)).reshape(-1, *by_unit.shape[1:])
            found[_entries(theirs)] = moved
            nobodys &= own.owners < 0
            theirs_not &= theirs.owners < 0
        found[theirs_not] = entries[nobodys]
        return found.movedim(0, axis)


def _makers(
    group: UnitGroup, groups: Sequence[UnitGroup], shapes: Mapping[str, Shape]
) -> list[Member]:
    """Return by what the units of a group are compared.

    The weights that make them before any layer reads them, and the biases of these layers. Weights
    by which units read themselves, as an LSTM's, are none: they can be moved only by the plan.
    """
    of = {(m.tensor, m.axis): other.name for other in groups for m in other.members}
    own = [member for member in group.members if member.tensor in shapes]
    reads = [member.reads for member in own]
    weights = [m for m in own if len(shapes[m.tensor]) > 1]
    first = [m for m in own[: [*reads, True].index(True)] if m in weights]
    # An embedding that is the output layer, too, makes units and reads them.
    tied = [m for m in group.members[:1] if m.reads and m in weights]
    made = tied + [m for m in first if of.get((m.tensor, 1 - m.axis)) != group.name]
    layers = {_layer(member.tensor) for member in made}
    return made + [m for m in own if m not in weights and _layer(m.tensor) in layers]


def _entries(member: Member) -> Tensor:
    """Return which entries of its axis each unit owns, int64 ``[units, entries of a unit]``."""
    units = member.owners.max() + 1
    known = np.argsort(member.owners, kind="stable")[(member.owners < 0).sum() :]
    return torch.from_numpy(known.reshape(units, -1))


def _by_unit(tensor: Tensor, member: Member) -> Tensor:
    """Return the numbers of each unit side by side, ``[units, numbers of a unit]``."""
    return tensor.movedim(member.axis, 0)[_entries(member)].flatten(1)


def _layer(tensor: str) -> str:
    return tensor.rpartition(".")[0]
