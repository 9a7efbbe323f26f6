"""Own heads: for each person the head that is solved of its own samples alone, and its scores.

A method is held against what people have without others. A model that is trained alone may not
have converged; a head that is solved always has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from fedsub_client.parts import solved_sums
from fedsub_client.parts.own_sums import Own
from fedsub_client.scaled_data import ScaledData
from fedsub_client.split_client import SplitClient
from fedsub_core.closed_form.personal import head_alone
from fedsub_core.closed_form.scale import Floats
from fedsub_core.cores import each
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.names import AUTO, NONE, resolve_encoder
from fedsub_core.encoders.standardised import of_person, seen
from fedsub_core.errors import ConfigError
from fedsub_core.evaluation import evaluate
from fedsub_core.methods.fedsub_ridge import MOST_FEATURES
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.models.architecture import Shape
from fedsub_core.pytorch import as_tensor

#: Training samples of whom a head is solved, at most: of so many it takes half a GiB and seconds.
MOST_SAMPLES = 2**12
#: People whose numbers a process keeps, so that several rounds and methods solve each head once.
KEPT = 2**16
_kept: dict[bytes, Mapping[str, float]] = {}
_lock = Lock()


def own_encoder(text: str, seed: int, shape: Shape) -> Encoder | None:
    """Return the encoder of own heads; None for samples that no encoder takes, such as images.

    Parameters
    ----------
    text : of the run's configuration. ``none`` is of its methods alone: a head that is solved needs
        features, as ``fedsub-ridge`` has them.
    """
    text = resolve_encoder(AUTO if text == NONE else text, True, shape)
    try:
        encoder = build_encoder(text, seed, shape)
    except ConfigError:
        return None
    return encoder if encoder is not None and encoder.features <= MOST_FEATURES else None


def own_heads(
    data: ScaledData,
    encoder: Encoder | None,
    classes: int,
    round: int,
    scaling: Scaling | None,
    index: Sequence[int],
) -> list[Mapping[str, float]]:
    """Return the scores of each client's own head, by the names of ``OWN_HEADS``.

    Clients without training or test samples have none, nor have those with more training samples
    than :data:`MOST_SAMPLES`.

    Parameters
    ----------
    data : of all clients of a cohort.
    encoder : of a device that holds everything; None: there are no own heads.
    scaling : the federation's.
    index : who is tested in `round`.
    """

    def scores(i: int) -> Mapping[str, float]:
        held = data.clients[i].at(round)
        if not (0 < len(held.train_y) <= MOST_SAMPLES and len(held.test_y)):
            return {}
        assert encoder is not None
        scale = data.scaling(i, round, scaling)
        # A method that trains its model may standardise features, which a head does not need.
        scale = None if scale is None else replace(scale, features=None)
        whole = held.capacity == 1 or not encoder.narrows
        own = encoder if whole else encoder.narrow(held.capacity)
        key = _digest(held, repr((own, classes, None if scale is None else scale.bits)))
        if (known := _kept.get(key)) is not None:
            return known
        # A method that solves heads of these features has them, and candidates of its clients.
        if data.levels and data.encoder == own and not own.personal:
            train, test = data.at(round, scaling)
            samples, tested = Own(train, i, classes), Own(test, i, classes)
            solved = solved_sums.ALONE.solved(samples)
            head = head_alone(samples.x, samples.y, classes, solved)
            solved_sums.ALONE.keep(samples, solved)
            found = _reached(head, tested.x, tested.y)
        else:
            own = of_person(own, held.train_x, scale)
            head = head_alone(seen(held.train_x, scale, own), held.train_y, classes)
            found = _reached(head, seen(held.test_x, scale, own), held.test_y)
        with _lock:
            if len(_kept) >= KEPT:
                _kept.clear()
            _kept[key] = found
        return found

    return [] if encoder is None else each(scores, index)


def _reached(
    head: tuple[Floats, Floats], x: NDArray[np.float32], y: NDArray[np.int64]
) -> Mapping[str, float]:
    """Return a head's scores on test samples, features [n, D] and labels [n]."""
    weight, bias = head
    logits, labels = as_tensor(x @ weight.T + bias), as_tensor(y)
    judged = evaluate(logits[None], labels[None], labels[None] >= 0)
    numbers = (float(score[0]) for score in (judged.macro_f1, judged.weighted_f1, judged.loss))
    return dict(zip(OWN_HEADS, numbers, strict=True))


def _digest(held: SplitClient, how: str) -> bytes:
    """Return a name of a client's samples, and of `how` their head is solved."""
    digest = hashlib.blake2b(how.encode(), digest_size=16)
    for array in (held.train_x, held.train_y, held.test_x, held.test_y):
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()
