"""States that grow: tensors of fewer classes in the first entries of those of more."""

from __future__ import annotations

from collections.abc import Mapping
from operator import le

from fedsub_core.pytorch import Tensor, copied


def widened(kept: Mapping[str, Tensor], begun: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of `begun`, with those of `kept` in the first entries of each axis.

    A tensor that does not fit in there, or that `begun` lacks, is left out.
    """
    found = {name: copied(tensor) for name, tensor in begun.items()}
    for name in kept.keys() & found.keys():
        tensor, now = kept[name], found[name]
        if len(tensor.shape) == len(now.shape) and all(map(le, tensor.shape, now.shape)):
            now[tuple(map(slice, tensor.shape))] = tensor
    return found


def widened_clients(
    kept: Mapping[str, Mapping[str, Tensor]],
    begun: Mapping[str, dict[str, Tensor]],
    solves: bool,
    anew: tuple[str, ...],
) -> dict[str, dict[str, Tensor]]:
    """Return the states of clients that go on with those they `kept`; of others there is none.

    Parameters
    ----------
    begun : the states that a run begins with.
    solves : whether heads are solved: those of other classes are solved anew.
    anew : beginnings of names of tensors that nobody goes on with.
    """
    found = {}
    for client in kept.keys() & begun.keys():
        new = begun[client]
        old = {name: t for name, t in kept[client].items() if not name.startswith(anew)}
        other = any(name in new and new[name].shape != t.shape for name, t in old.items())
        found[client] = new if solves and other else widened(old, new)
    return found
