"""Sums that a hostile device makes up: of samples that could be, so that no check refuses them."""

from dataclasses import replace

import numpy as np

from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, Statistics, statistics
from fedsub_core.method_parts.ridge_tensors import CROSS, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole

#: As how many each sample is said to be there: more is refused for its halvings.
REPEATED = 2**10


def opposite(upload: Bundle) -> Bundle:
    """Return sums of as many samples of each class, all as far from where it lies as can be."""
    if GRAM not in upload.tensors:
        return upload
    cross = _sums(upload).class_sums.astype(np.float64)
    held = cross[:, :1] > 0
    away = cross / np.where(held, cross[:, :1], 1) < cross.sum(0) / cross[:, 0].sum()
    y = np.repeat(np.arange(len(cross)), (cross[:, 0] / UNIT).astype(int))
    x = np.where(away[:, 1:], (UNIT - 1) / UNIT, -1.0)[y].astype(np.float32)
    return _with(upload, statistics(x, y, len(cross)))


def repeated(upload: Bundle) -> Bundle:
    """Return sums in which each sample is there ``REPEATED`` times."""
    if GRAM not in upload.tensors:
        return upload
    sums = _sums(upload).statistics()
    return _with(upload, Statistics(sums.gram * REPEATED, sums.cross * REPEATED))


def _sums(upload: Bundle) -> Rounded:
    shifts = upload.floats(SHIFTS).astype(np.int64)
    return Rounded(upload.whole(GRAM), upload.whole(CROSS), shifts)


def _with(upload: Bundle, sums: Statistics) -> Bundle:
    sent = Rounded.of(sums)
    tensors: dict[str, Part] = {**upload.tensors, GRAM: Whole(sent.gram), CROSS: Whole(sent.cross)}
    tensors[SHIFTS] = Floats(sent.shifts.astype(np.float32))
    return replace(upload, tensors=tensors, examples=int(sent.class_sums[:, 0].sum()) // UNIT)
