"""What every model can do, whatever it is made of: over stacks of clients, on named tensors.

Two kinds exist: :class:`fedsub_core.models.chain.Chain`, written out layer by layer, and
:class:`fedsub_core.models.torch_model.TorchModel`, any ``torch.nn.Module``. Who trains or uses a
model does not ask which it has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fedsub_core.models.architecture import Architecture, Shape, UnitRows
from fedsub_core.models.units import UnitGroup, Units
from fedsub_core.placement import Placement
from fedsub_core.pytorch import Tensor, torch

if TYPE_CHECKING:
    from fedsub_core.data.stacks import Stack

#: Stacked tensors ``[clients, ...]`` by name.
Params = dict[str, Tensor]


class Pass(NamedTuple):
    """A forward pass in training.

    Parameters
    ----------
    outputs : logits ``[clients, samples, classes]`` of every exit, the last one's at the end.
    embedding : input of the last layer with units, ``[clients, samples, *d]``.
    """

    outputs: tuple[Tensor, ...]
    embedding: Tensor


class Model(Architecture):
    """An architecture that computes; it holds no client's numbers itself."""

    #: Samples that a step of training needs at least: two where a layer normalises by the batch.
    fewest_samples = 1

    @property
    def constants(self) -> Params:
        """Tensors that are the same for everybody, neither trained nor sent; mostly {}."""
        return {}

    @property
    @abstractmethod
    def output_shape(self) -> Shape:
        """Shape of what the model makes of one sample."""

    @property
    @abstractmethod
    def widest(self) -> int:
        """Values of a sample at its widest."""

    @abstractmethod
    def init(self, clients: int, seed: int) -> Params:
        """Draw one model and give every client a copy of it."""

    @abstractmethod
    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]`` of ``x [clients, samples, *features]``."""

    @abstractmethod
    def training_pass(
        self,
        params: Params,
        x: Tensor,
        only: Collection[str] | None = None,
        seeds: Sequence[int] = (),
    ) -> Pass:
        """Return a pass whose gradients autograd finds.

        Tensors of `params` that no gradient moves, such as statistics of a norm, are changed in
        place.

        Parameters
        ----------
        only : layers that are trained; None: all. Norms of others use the statistics they have.
        seeds : of each client, for what is drawn in the pass.
        """

    def together(self, x: Tensor, training: bool) -> int:
        """Return how many clients pass at once at most; here all.

        Parameters
        ----------
        x : their samples, ``[clients, samples, *features]``.
        """
        return len(x)

    @abstractmethod
    def cut(self, head_layers: int = 1) -> tuple[Model, Model]:
        """Return two models: the body, and the head, which begins with the last layers with units.

        Raises ConfigError if the model cannot be cut there.
        """

    @property
    @abstractmethod
    def unit_groups(self) -> tuple[UnitGroup, ...]:
        """The units that a smaller model can have fewer of, from input to output.

        Raises ConfigError if they cannot be found; it names the layer where.
        """

    @abstractmethod
    def narrow(self, units: Units) -> tuple[Model, Mapping[str, Placement]]:
        """Return the model with these units alone, and where its tensors stand in this one's.

        What it computes is what this model does with all numbers of other units 0. A norm over
        units, as LayerNorm, is then one over those that are left.

        Raises ConfigError if units are not known, or are not those of a group; see :data:`Units`.
        """

    def settled(self, params: Params, data: Stack) -> Params:
        """Return the tensors that follow from a person's own samples, once it is tested; mostly {}.

        `data` are the training samples.
        """
        return {}


def unit_rows(params: Params, rows: UnitRows) -> Tensor:
    """Return the rows of all units, some tensors side by side: ``[clients, units, width]``."""
    parts = [by_unit(params[name], rows.gates).flatten(2) for name in rows.tensors]
    return torch.cat(parts, 2)


def by_unit(tensor: Tensor, gates: int) -> Tensor:
    """View a tensor ``[clients, gates * units, ...]`` as ``[clients, units, gates, numbers]``."""
    clients, entries = tensor.shape[:2]
    return tensor.view(clients, gates, entries // gates, -1).transpose(1, 2)
