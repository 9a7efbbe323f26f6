"""Prototypes: the mean features of each class (FedSub eq. 1)."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from fedsub_client.parts.embeddings import BLOCK, embeddings
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import PROTOTYPE_FEATURES
from fedsub_core.models.model import Model, Params


def prototype_features(model: Model, params: Params, data: Stack, kind: str) -> Tensor:
    """Return phi(x) ``[clients, samples, *d]``, what prototypes are the mean of.

    Bytes come as they are kept, :func:`prototypes` standardises their mean.

    `kind` is ``input`` (the features themselves, the default) or ``embedding`` (the input of the
    last layer with units; it changes with the model, not with the data alone).
    """
    if kind not in PROTOTYPE_FEATURES:
        expected = " or ".join(PROTOTYPE_FEATURES)
        raise ConfigError(f"prototype: got {kind!r}, expected {expected}")
    if kind == "input":
        return data.x
    return embeddings(model, params, data.x, scale=data.scale)


def prototypes(features: Tensor, data: Stack, classes: int) -> tuple[Tensor, Tensor]:
    """Return rho, the mean features of each class, and how many samples it is the mean of.

    Parameters
    ----------
    features : [clients, samples, *d]

    Returns
    -------
    rho : float32 [clients, classes, prod(d)], zero for a class the client lacks.
    counts : int64 [clients, classes]
    """
    of_class, counts = data.of_class(classes), data.class_counts(classes)
    if not features.is_floating_point():
        return _means_of_bytes(features, data, of_class), counts
    # What a module makes of padding may be no number, and 0 times that is none either.
    flat = features.flatten(2).masked_fill(~data.valid.unsqueeze(2), 0)
    sums = of_class.to(flat.dtype).transpose(1, 2).bmm(flat)
    return sums / counts.clamp(min=1).unsqueeze(2), counts


def _means_of_bytes(x: Tensor, data: Stack, of_class: Tensor) -> Tensor:
    """Return the mean of each class of what a model sees of images, a few images at a time."""
    assert data.scale is not None
    sums = torch.zeros(len(x), of_class.shape[2], x[0, 0].numel(), device=x.device)
    for c, count in enumerate(data.counts):
        for start in range(0, count, BLOCK):
            part = slice(start, min(start + BLOCK, count))
            seen = inputs(x[c, part].unsqueeze(0), data.scale[c : c + 1])[0].flatten(1)
            sums[c] += of_class[c, part].to(torch.float32).T @ seen
    return sums / data.class_counts(sums.shape[1]).clamp(min=1).unsqueeze(2)


def content_hash(data: Stack, key: bytes = b"") -> Tensor:
    """Return a hash of each client's data, int64 [clients].

    It is equal for equal valid samples and labels in equal order.

    Padding and the company in the stack do not enter, so a client whose data stayed the same
    keeps its hash and need not send its prototypes again. With a `key` (up to 64 bytes, the
    device's own) who sees the hash cannot test guesses of the data against it.
    """
    x, y = data.x.cpu().numpy(), data.y.cpu().numpy()
    hashes = []
    for c, count in enumerate(data.counts):
        digest = hashlib.blake2b(repr(x[c, :count].shape).encode(), digest_size=8, key=key)
        digest.update(x[c, :count].tobytes())
        digest.update(y[c, :count].tobytes())
        if data.scale is not None:
            digest.update(data.scale[c].cpu().numpy().tobytes())
        hashes.append(int.from_bytes(digest.digest(), "little", signed=True))
    return torch.tensor(hashes, dtype=torch.int64)
