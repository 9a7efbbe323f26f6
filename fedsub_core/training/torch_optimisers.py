"""Any optimiser of ``torch.optim``, one for each client of a stack.

Each client has an optimiser of its own on its rows of the stacked tensors, so what it does with
norms or factors of a tensor is that client's alone. Its state lives as long as a phase of training:
nothing of it is kept between rounds, and nothing travels.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from fedsub_core.config.parts import Part, only
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Params
from fedsub_core.options import nearest
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.training.batches import Met
from fedsub_core.training.optimisers import IntoBuffer, clipped, zeros

#: Those that need what training in steps has not: a closure, or sparse gradients.
_OTHERS = {
    "LBFGS": "calls the loss several times in a step",
    "SparseAdam": "needs sparse gradients",
}


class TorchOptimiser:
    """An optimiser of ``torch.optim`` for each client.

    Parameters
    ----------
    settings : of local training. The rate is the run's; ``weight-decay`` is handed on where it is
        not 0, and ``momentum`` to SGD. All else has PyTorch's defaults, or stands in the name.
    round : whose rate it has.

    Raises ConfigError if there is none of that name, or it does not take such arguments.
    """

    def __init__(self, settings: TrainingSettings, round: int) -> None:
        self.most = settings.clip_norm
        self.kind, self.arguments = _kind(settings)
        self.arguments["lr"] = settings.rate(round)
        #: By where a stacked model lies: each client's optimiser, and its rows by name.
        self.made: dict[int, list[tuple[torch.optim.Optimizer, Params]]] = {}
        self._optimiser([torch.zeros(1, 1)])

    def buffers(self, params: Params) -> Params:
        """Return the gradient's, which holds nothing from step to step."""
        return {name: zeros(tensor) for name, tensor in params.items()}

    def step(self, params: Params, buffers: Params, gradient: IntoBuffer) -> Met:
        """Take one step."""
        fresh, met = clipped(gradient, buffers, self.most)
        first = params[next(iter(buffers))]
        # Rows of the same memory: as epochs end, fewer of the first clients are active.
        each = self.made.setdefault(first.data_ptr(), [])
        for i in range(len(each), len(first)):
            rows = {name: params[name][i] for name in buffers}
            each.append((self._optimiser(list(rows.values())), rows))
        for i, (optimiser, rows) in enumerate(each[: len(first)]):
            for name, row in rows.items():
                row.grad = fresh[name][i]
            optimiser.step()
        return met

    def _optimiser(self, rows: list[Tensor]) -> torch.optim.Optimizer:
        try:
            made: torch.optim.Optimizer = self.kind(rows, **self.arguments)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"optimiser: {self.kind.__name__}: got {error}, expected arguments and a model "
                "that it takes"
            ) from error
        return made


def _kind(settings: TrainingSettings) -> tuple[Any, dict[str, Any]]:
    """Return the class that a run's optimiser names, and its arguments without the rate."""
    part = only(settings.optimiser, "optimiser")
    known = {name: one for name, one in vars(torch.optim).items() if _is_optimiser(one)}
    by_case = {name.lower(): name for name in known}
    name = by_case.get(part.name.lower(), part.name)
    if name in _OTHERS:
        raise ConfigError(f"optimiser: got {name}, which {_OTHERS[name]}, expected another")
    if name not in known:
        there = sorted(set(known) - set(_OTHERS))
        hint = nearest(part.name, there, "Known")
        raise ConfigError(f"optimiser: unknown {part.name!r}.{hint}")
    kind = known[name]
    return kind, _arguments(part, kind, settings)


def _arguments(part: Part, kind: Any, settings: TrainingSettings) -> dict[str, Any]:
    found = part.arguments(kind.__init__, "optimiser", taken=2)
    if "lr" in found:
        raise ConfigError(
            f"optimiser: {part.name}: got lr = {found['lr']}, expected the rate as lr of the run"
        )
    if settings.weight_decay:
        if "weight_decay" not in signature(kind.__init__).parameters:
            raise ConfigError(
                f"weight-decay: got {settings.weight_decay} with {part.name}, which has none"
            )
        found.setdefault("weight_decay", settings.weight_decay)
    if kind is torch.optim.SGD:
        found.setdefault("momentum", settings.momentum)
    return found


def _is_optimiser(one: Any) -> bool:
    base = torch.optim.Optimizer
    return isinstance(one, type) and issubclass(one, base) and one is not base
