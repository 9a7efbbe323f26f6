"""Models of nodes of a graph with features ``[F]``."""

from itertools import pairwise

from torch import Tensor, nn

from fedsub_core.data.graphs import graph_of, propagate
from fedsub_core.data.samples import Nodes
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape

#: Layers, as FRAMP says of its model, and units of the hidden ones, of which it says nothing.
LAYERS, HIDDEN = 4, 64


class GCN(nn.Module):
    """A graph convolutional network of four layers, F-64-64-64-classes with ReLU.

    ``H' = relu(D^-1/2 (A + I) D^-1/2 H W + b)``, the last layer without ReLU: Kipf and Welling,
    Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017, eq. 2. An isolated
    node sees itself alone. Dropout is left out, as everywhere here.
    """

    #: The sample for which `fedsub models` shows its size.
    example = Nodes((128,))

    def __init__(self, input_shape: Shape, classes: int) -> None:
        super().__init__()
        if not isinstance(input_shape, Nodes):
            raise ConfigError(
                f"gcn wants nodes of a graph, got samples of shape {input_shape}: federation.toml "
                "says sample = 'node' of them, and clients' files hold edges"
            )
        sizes = (*input_shape, *[HIDDEN] * (LAYERS - 1), classes)
        self.layers = nn.ModuleList(nn.Linear(*both) for both in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[rows, classes]`` of a graph's rows, of which those of nodes count."""
        h, source, target = graph_of(x)
        *hidden, last = self.layers
        for layer in hidden:
            h = layer(propagate(h, source, target)).relu()
        logits: Tensor = last(propagate(h, source, target))
        return logits
