"""What the cards declare of methods whose models are sparse: masked weights, and gradients."""

from typing import Any

from fedsub_core.method_parts.layers import is_weight
from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, dense, elements

#: What goes before the name of a weight's gradient.
GRADIENT = "gradient."


def sparse_model(model: Architecture, hyper: Any) -> Declaration:
    """Declare the model, of each weight the numbers that are not masked out, and all biases."""
    share = 1 - float(getattr(hyper, "sparsity_at_first", 0.0))
    return {
        name: elements(shape, share=share) if is_weight(shape) else dense(shape)
        for name, shape in model.parameter_shapes.items()
    }


def sparse_model_and_gradients(model: Architecture, hyper: Any) -> Declaration:
    """Declare the sparse model, and in some rounds the whole gradient of every weight."""
    weights = {n: s for n, s in model.parameter_shapes.items() if is_weight(s)}
    gradients = {GRADIENT + name: dense(shape, optional=True) for name, shape in weights.items()}
    return {**sparse_model(model, hyper), **gradients}
