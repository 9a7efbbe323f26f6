"""What weak devices hold of a model in a round: multiplications, and how evenly it is covered."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from fedsub_core.method_parts.layers import is_weight
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Affine
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats

#: Percentiles over a model's numbers of the share of uploads that have one.
PERCENTILES = {"p10": 10, "median": 50, "p90": 90}


def positions_of(model: Model) -> dict[str, int]:
    """Return the number of places of a sample that each weight is multiplied by, by its name.

    A convolution's at every place of its output; a module's, of which these are not known, at one.
    """
    if not isinstance(model, Chain):
        return {n: 1 for n, s in model.parameter_shapes.items() if is_weight(s)}
    shape, places = model.input_shape, dict[str, int]()
    for layer in model.layers:
        shape = layer.output_shape(shape)
        if isinstance(layer, Affine):
            places[f"{layer.name}.weight"] = prod(shape[1:])
    return places


def multiplications(model: Model) -> int:
    """Return the number of multiplications that a model's weights take for one sample."""
    shapes = model.parameter_shapes
    return sum(prod(shapes[name]) * places for name, places in positions_of(model).items())


def multiplied_share(model: Model, numbers: Mapping[str, int]) -> float:
    """Return the share of a model's multiplications that are with so many numbers of each weight.

    `numbers` by the name of the weight, of one sample's forward pass; layers that a device lacks
    altogether may be left out.
    """
    made = sum(numbers.get(name, 0) * places for name, places in positions_of(model).items())
    return made / multiplications(model)


def covered(
    shapes: Mapping[str, Shape], uploads: Mapping[str, Bundle], round: int
) -> list[MetricRow]:
    """Return the shares of a round's uploads that have a number, as the whole run's metrics.

    ``held_by_none`` is the share of the model's numbers that no upload has; ``held_by_p10``,
    ``_median`` and ``_p90`` are percentiles over these numbers of the share of uploads that have
    one. `uploads` say where their numbers stand in tensors of these `shapes`.
    """
    if not uploads:
        return []
    counts = [np.zeros(shape, np.int32) for shape in shapes.values()]
    for upload in uploads.values():
        for (name, shape), count in zip(shapes.items(), counts, strict=True):
            part = upload.tensors.get(name)
            if isinstance(part, Floats):
                count += part.at.held(shape)
    shares = np.concatenate([count.ravel() for count in counts]) / len(uploads)
    held = {"none": float((shares == 0).mean())}
    held |= {name: float(np.percentile(shares, p)) for name, p in PERCENTILES.items()}
    return [MetricRow(round, "", None, f"held_by_{name}", v) for name, v in held.items()]
