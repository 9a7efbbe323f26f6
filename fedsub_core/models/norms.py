"""Norms that keep running statistics, and where these statistics go in a federation.

``averaged``: they travel with the model, and the server takes their mean over people. ``local``:
these layers stay at home whole, weights and statistics, whatever the method (Li et al., FedBN,
ICLR 2021, of any method). ``static``: their weights travel; training goes by the batch, a test by
the statistics of the person's own training part (Diao et al., HeteroFL, ICLR 2021, static batch
normalisation, with one person's samples instead of everybody's).
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from fedsub_core.errors import ConfigError
from fedsub_core.pytorch import Tensor, nn

AVERAGED, LOCAL, STATIC = "averaged", "local", "static"
#: What was found in modules that are still in use.
_FOUND: WeakKeyDictionary[nn.Module, tuple[str, ...]] = WeakKeyDictionary()


def batch_norms(module: nn.Module) -> tuple[str, ...]:
    """Return names of the layers that keep running statistics."""
    if (found := _FOUND.get(module)) is None:
        found = tuple(name for name, layer in module.named_modules() if _tracks(layer))
        _FOUND[module] = found
    return found


def statistics(module: nn.Module) -> tuple[str, ...]:
    """Return names of the buffers that are running statistics."""
    kinds = "running_mean", "running_var"
    return tuple(f"{name}.{kind}" for name in batch_norms(module) for kind in kinds)


def kept_at_home(module: nn.Module, norm: str, names: Iterable[str]) -> frozenset[str]:
    """Return the tensors of the module, of those `names`, that each client keeps for itself."""
    if norm == LOCAL:
        return frozenset(n for n in names if n.rpartition(".")[0] in batch_norms(module))
    return frozenset(statistics(module) if norm == STATIC else ())


def check_norms(module: nn.Module, norm: str) -> None:
    """Refuse norms that cannot be trained as `norm` says.

    Raises ConfigError if there is none where the run says what to do with them, or one counts its
    batches.
    """
    found = batch_norms(module)
    if norm != AVERAGED and not found:
        raise ConfigError(
            f"norm: got {norm!r}, expected {AVERAGED!r}: no layer of the model keeps running "
            "statistics"
        )
    for name in found:
        if getattr(module.get_submodule(name), "momentum", None) is None:
            raise ConfigError(
                f"layer {name}: got momentum=None, a mean over all batches since the start; "
                "expected a number: people's rounds are of different lengths"
            )


def _tracks(layer: nn.Module) -> bool:
    kinds = nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm
    return isinstance(layer, kinds) and isinstance(layer.running_mean, Tensor)
