"""What hostile devices send: of each attack, an upload instead of the honest one.

Every attack is tried as it is, and once more by one who says besides that it has the most samples
there can be: what a device says may not raise both its weight and the bound on its update.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from attack_sums import opposite, repeated

from fedsub.testing.lying_sums import LIES, Late, Lie, corners, lied, opposed
from fedsub_core.method_parts.prototypes import COUNTS
from fedsub_core.method_parts.ridge_tensors import GRAM, SHIFTS
from fedsub_core.methods.fedfomo import GAINS
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE, SHARES
from fedsub_core.methods.fedsub_gated import CURVES, GATE
from fedsub_core.wire.bundles import Bits, Bundle, FloatArray, Floats, Part

#: What is no model among the tensors of uploads.
NO_MODEL = (PROTOTYPES, SCORE, COUNTS, GATE, CURVES, GAINS, SHIFTS, "descriptor")
#: The largest number that passes the codec's check, and the most samples that do.
LARGE, MANY = 1e5, 2**48 - 1
#: By how much the update that learnt a backdoor grows.
BOOST = 10.0
#: A sleeper is honest for this share of the rounds.
ASLEEP = 0.6


@dataclass(frozen=True)
class Scene:
    """What a hostile device knows when it sends.

    Parameters
    ----------
    upload : what it would send if it were honest.
    received : what it was sent.
    other : an honest device's upload of this round.
    awake : whether a sleeper attacks by now.
    """

    upload: Bundle
    received: Bundle
    other: Bundle
    awake: bool = True


Attack = Callable[[Scene], Bundle]
#: Of a tensor's name, the honest values and what was sent of it before (None: nothing): others.
Change = Callable[[str, FloatArray, "FloatArray | None"], Any]


def changed(scene: Scene, change: Change, upload: Bundle | None = None) -> Bundle:
    """Return an upload with other numbers in its models, not in prototypes, scores and sums."""
    upload = scene.upload if upload is None else upload
    tensors: dict[str, Part] = {}
    for name, part in upload.tensors.items():
        if not isinstance(part, Floats) or not _is_model(name):
            tensors[name] = part
            continue
        start = _start(part, scene.received.tensors.get(name))
        values = np.clip(change(name, part.values, start), -1e6, 1e6)
        tensors[name] = replace(part, values=values.astype(np.float32))
    return replace(upload, tensors=tensors)


def _start(part: Floats, before: Part | None) -> FloatArray | None:
    """Return the sent numbers of a part; None where not all are known."""
    if not isinstance(before, Floats):
        return None
    if before.at == part.at:
        return before.values
    return part.at.take(before.values) if before.at.everywhere else None


def boosted(update: float, rows: float, upload: Bundle | None = None) -> Attack:
    """Multiply a model's update, or a subnetwork's rows, whose start nobody sent."""

    def change(name: str, values: FloatArray, start: FloatArray | None) -> Any:
        return rows * values if start is None else start + update * (values - start)

    return lambda scene: changed(scene, change, upload)


def numbers(change: Callable[[str, FloatArray], Any]) -> Attack:
    """Send other numbers, whatever was sent before."""
    return lambda scene: changed(scene, lambda name, values, start: change(name, values))


def drifting(scene: Scene) -> Bundle:
    """Go as far as an honest update does, always in one direction."""

    def change(name: str, values: FloatArray, start: FloatArray | None) -> Any:
        start = values if start is None else start
        away = _fixed(name, values)
        length = max(float(np.linalg.norm(values - start)), 0.01 * float(np.linalg.norm(values)))
        return start + away * (length / max(float(np.linalg.norm(away)), 1e-12))

    return changed(scene, change)


def last_layer(scene: Scene) -> Bundle:
    """Be honest but for the last layer, whose update goes the other way, ten times."""
    sent = scene.upload.tensors.items()
    model = [n for n, part in sent if isinstance(part, Floats) and _is_model(n)]
    if not model:
        return scene.upload
    last = {n for n in model if n.rpartition(".")[0] == model[-1].rpartition(".")[0]}

    def change(name: str, values: FloatArray, start: FloatArray | None) -> Any:
        if name not in last:
            return values
        return -values if start is None else start - 10 * (values - start)

    return changed(scene, change)


def copied(scene: Scene) -> Bundle:
    """Stand where an honest client stands, with the best score and its rows negated."""
    return best(boosted(-3.0, -1.0, scene.other)(scene))


def ones(scene: Scene) -> Bundle:
    """Say that all numbers are 1: of every unit, which every class selected, with best scores."""
    tensors = dict(scene.upload.tensors)
    for name, part in scene.upload.tensors.items():
        if isinstance(part, Bits) and name.endswith(MASKS):
            every = scene.upload.bits(CLASSES)[:, None] | part.values
            layer = name.removesuffix(MASKS)
            rows = scene.upload.floats(layer)
            whole = np.ones((every.shape[1], *rows.shape[1:]), np.float32)
            tensors |= {name: Bits(every), layer: Floats.rows(np.asarray(every.any(0)), whole)}
    upload = replace(scene.upload, tensors=tensors)
    return best(changed(scene, lambda name, values, start: np.ones_like(values), upload))


def outlying(scene: Scene) -> Bundle:
    """Put prototypes where nobody is."""
    found = scene.upload.tensors.get(PROTOTYPES)
    if not isinstance(found, Floats):
        return scene.upload
    away = replace(found, values=found.values * np.float32(1000))
    return replace(scene.upload, tensors={**scene.upload.tensors, PROTOTYPES: away})


def best(upload: Bundle, most: float = 1.0) -> Bundle:
    """Return an upload with the best scores: a score above `most` is refused."""
    score = upload.tensors.get(SCORE)
    if isinstance(score, Floats):
        great = Floats(((score.values > 0) * most).astype(np.float32))
        upload = replace(upload, tensors={**upload.tensors, SCORE: great})
    return upload


def many(attack: Attack) -> Attack:
    """Say besides that one has as many samples as the wire takes, in counts and scores, too."""

    def claim(scene: Scene) -> Bundle:
        upload = attack(scene)
        examples = MANY
        counts = upload.tensors.get(COUNTS)
        if isinstance(counts, Floats):  # they must add up, as float32
            held = counts.values > 0
            shown = np.where(held, np.float32(2**40), np.float32(0)).astype(np.float32)
            upload = replace(upload, tensors={**upload.tensors, COUNTS: Floats(shown)})
            examples = 2**40 * int(held.sum())
        score = upload.tensors.get(SCORE)
        if isinstance(score, Floats) and score.values.max() > 1:  # scores are samples
            upload = best(upload, float(2**40))
        if GRAM in upload.tensors:  # so must sums
            return repeated(upload)
        return replace(upload, examples=examples)

    return claim


def sleeping(attack: Attack) -> Attack:
    """Be honest until the others trust one's models."""
    return lambda scene: attack(scene) if scene.awake else scene.upload


def lying(lie: Lie) -> Attack:
    """Send other sums."""
    return lambda scene: lied(scene.upload, lie)


def lying_late(lie: Lie) -> Attack:
    """Send other sums when everybody has settled."""
    late = Late(lie)
    return lambda scene: late(scene.upload, scene.awake)


def _is_model(name: str) -> bool:
    return name not in NO_MODEL and not name.endswith(SHARES)


def _honest(scene: Scene) -> Bundle:
    return scene.upload


def _fixed(name: str, values: FloatArray) -> FloatArray:
    """Return numbers of deviation 1 that are the same in every round, of a tensor's whole shape."""
    stream = np.random.default_rng(zlib.crc32(name.encode()))
    return stream.normal(size=values.shape).astype(np.float32)


#: What makes an upload hostile; None: the person's data or handshake do.
SINGLE: Mapping[str, Attack | None] = {
    "scaled": numbers(lambda name, values: values * LARGE),
    "negated": boosted(-1.0, -1.0),
    "x -3": boosted(-3.0, -1.0),
    "x -30": boosted(-30.0, -30.0),
    "x 1.9": boosted(1.9, 1.9),  # rows just below what is shortened
    # Noise and random models are the same in every round.
    "noise": numbers(lambda name, values: values + _fixed(name, values)),
    "zeros": numbers(lambda name, values: 0.0 * values),
    "ones": ones,
    "random model": numbers(lambda name, values: 0.1 * _fixed(name, values)),
    "drift": drifting,
    "last layer": last_layer,
    "labels flipped": None,
    "backdoor": lambda scene: best(boosted(BOOST, 2.0)(scene)),
    "copied prototypes": copied,
    "outlier prototypes": outlying,
    "opposite sums": lambda scene: opposite(scene.upload),
    "sleeper": sleeping(boosted(-30.0, -30.0)),
}
#: Each alone, each with samples that are not there, and what is a lie alone.
ATTACKS: dict[str, Attack | None] = {
    "nobody": None,
    **SINGLE,
    "samples": many(_honest),
    **{f"{name}, samples": many(one or _honest) for name, one in SINGLE.items()},
    "handshake": None,
    "handshake, mean": None,
    **{name: lying(lie) for name, lie in LIES.items()},
    "opposed sums, late": lying_late(opposed),
    "corner sums, late": lying_late(corners),
}
