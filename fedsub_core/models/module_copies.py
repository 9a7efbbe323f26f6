"""Copies of a module, one a thread: a pass sets modes and leaves what layers saw."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection

import torch
from torch import Tensor, nn

from fedsub_core.models.norms import batch_norms


class Copies(threading.local):
    """Each thread's copy, made when the thread first asks.

    Parameters
    ----------
    module : what is copied; it is never changed.
    watched : the layer whose input is kept; "" for none.
    """

    #: What the watched layer saw in this thread's last pass.
    seen: Tensor | None = None
    _copy: nn.Module | None = None
    _mode: object = None

    def __init__(self, module: nn.Module, watched: str = "") -> None:
        self._of, self._watched = module, watched

    def at(
        self, device: torch.device, training: bool, only: Collection[str] | None = None
    ) -> nn.Module:
        """Return this thread's copy on a device, in a mode.

        Parameters
        ----------
        only : layers that are trained; None: all. Norms of others use the statistics they have.
        """
        if self._copy is None:
            self._copy = copy.deepcopy(self._of)
            if self._watched:
                self._copy.get_submodule(self._watched).register_forward_pre_hook(self._keep)
        mode = device, training, None if only is None else frozenset(only)
        if self._mode != mode:
            self._copy.to(device).train(training)
            if training and only is not None:
                for name in batch_norms(self._of):
                    self._copy.get_submodule(name).train(name in only)
            self._mode = mode
        return self._copy

    def _keep(self, layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        self.seen = args[0]
