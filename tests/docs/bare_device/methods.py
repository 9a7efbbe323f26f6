"""What a device sends and takes in, by method: FedAvg, and FedSub with naive relevance."""

import hashlib
from collections.abc import Mapping

import numpy as np

from .model import Array, Params, forward, layers
from .wire import Part


def take_in(params: Params, parts: Mapping[str, Part]) -> Params:
    """Replace the parameters, or the rows of units, that a download names."""
    params = {name: tensor.copy() for name, tensor in params.items()}
    for name, part in parts.items():
        if name in params:
            params[name] = part.values.astype(np.float32)
        else:
            params[f"{name}.weight"][part.mask] = part.values[:, :-1]
            params[f"{name}.bias"][part.mask] = part.values[:, -1]
    return params


def fedavg_upload(params: Params) -> dict[str, Part]:
    """Return every parameter."""
    return {name: Part(tensor.shape, tensor) for name, tensor in params.items()}


def content_version(x: Array, y: Array) -> int:
    """Name what prototypes come from: 63 bits of a hash, never 0."""
    digest = hashlib.blake2b(x.tobytes() + y.tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1 or 1


def spread(y: Array, most: int) -> Array:
    """Return at most `most` samples of each class, spread evenly over it: a mask; 0: all."""
    kept = np.ones(len(y), bool)
    for label in np.unique(y) if most else ():
        of_class = np.flatnonzero(y == label)
        parts = np.arange(len(of_class) + 1) * min(most, len(of_class)) // len(of_class)
        kept[of_class] = np.diff(parts) > 0
    return kept


def fedsub_upload(
    params: Params, x: Array, y: Array, depth: int, samples: int, send: bool
) -> dict[str, Part]:
    """Return rows, masks, scores and, if to `send`, prototypes.

    A unit is relevant for a class if its mean activation over `samples` of it is above 0.
    """
    judged = spread(y, samples)
    made, classes = forward(params, x), len(params[f"{layers(params)[-1]}.bias"])
    held: Array = np.isin(np.arange(classes), y)
    parts = {
        "classes": Part((classes,), held),
        "scores": Part((classes,), held.astype(np.float32), exact=True),
    }
    if send:
        means = np.stack([x[y == label].mean(0) for label in np.flatnonzero(held)])
        parts["prototypes"] = Part((classes, x.shape[1]), means.astype(np.float32), held)
    for name, out in list(zip(layers(params), made, strict=True))[: depth or None]:
        masks = np.stack([((y == label) & judged) @ out > 0 for label in range(classes)])
        weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
        rows, units = np.hstack([weight, bias[:, None]]), np.asarray(masks.any(0))
        parts[name] = Part(rows.shape, rows[units], units)
        parts[f"{name}.masks"] = Part(masks.shape, masks)
    return parts
