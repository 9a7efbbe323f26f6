"""Windows over WISDM's raw rows, and the features of each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_data.preparing.preparation import Counts
from fedsub_data.preparing.windows import stretches, window_starts
from fedsub_data.preparing.wisdm.raw import Rows

RATE_HZ = 20.0
AXES = ("acc_x", "acc_y", "acc_z")
STATISTICS = ("mean", "std", "min", "max")

#: A pause is more than this many of a person's usual steps, 0.5 s at 20 Hz. Single steps reach
#: two or more of 50 ms where the phone was late, held a reading or wrote a record that was dropped,
#: all of which a window may span. In steps, not seconds: the stamps' unit is only "generally" ns.
PAUSE_STEPS = 10


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of `length` rows, `step` rows apart in a stretch.

    Parameters
    ----------
    user, label, start : int64 [n], whose, which activity, and the first row.
    t : float64 [n], seconds at which each starts, on a clock of its person that counts rows at 20
        Hz. The stretches lie in the file's order with a window's length between.
    """

    length: int
    step: int
    user: NDArray[np.int64]
    label: NDArray[np.int64]
    start: NDArray[np.int64]
    t: NDArray[np.float64]

    def features(self, rows: Rows, which: NDArray[np.int64], kind: str) -> NDArray[np.float32]:
        """Return the windows `which`, m/s^2: [n, 3, length] if `kind` is raw, else [n, F].

        F is 3 for ``mean``, and 12 for ``stats``: mean, std (of the population), min, max of x,
        then of y, then of z.
        """
        index = self.start[which, None] + np.arange(self.length)
        x = rows.acceleration[index].transpose(0, 2, 1)
        if kind == "mean":
            x = x.mean(axis=2)
        elif kind == "stats":
            every = [x.mean(axis=2), x.std(axis=2), x.min(axis=2), x.max(axis=2)]
            x = np.stack(every, axis=2).reshape(len(x), -1)
        return np.asarray(x, np.float32)


def cut(rows: Rows, window_s: float, overlap: float, counts: Counts) -> Windows:
    """Return the windows of `window_s` seconds that fit between changes and pauses.

    None spans two people or activities or a pause. Length and step are rounded to whole rows.

    Parameters
    ----------
    window_s : float
    overlap : share of a window that its successor repeats, in [0, 1).
    counts : gains the stretches without a pause, and the rows that no window took.
    """
    length = max(1, round(window_s * RATE_HZ))
    step = max(1, round(length * (1 - overlap)))
    starts: list[int] = []
    times: list[float] = []
    clock: dict[int, int] = {}
    left = 0
    counts.add("stretches without a pause", 0)
    for begin, end in stretches(rows.user, rows.label, breaks=_pauses(rows)):
        counts.add("stretches without a pause")
        mine = window_starts(begin, end, length, step)
        left += end - (mine[-1] + length if mine else begin)
        if mine:
            user = int(rows.user[begin])
            origin = clock.get(user, 0)
            starts.extend(mine)
            times.extend((origin + start - begin) / RATE_HZ for start in mine)
            clock[user] = origin + mine[-1] - begin + 2 * length
    counts.add("rows dropped: left over, shorter than a window", left)
    start = np.array(starts, np.int64)
    return Windows(length, step, rows.user[start], rows.label[start], start, np.array(times))


def _pauses(rows: Rows) -> NDArray[np.bool_]:
    """Return bool [n]: which rows do not follow the one before them in time."""
    pauses = np.zeros(len(rows.user), np.bool_)
    steps = np.diff(rows.stamp)
    same = np.diff(rows.user) == 0
    for user in np.unique(rows.user):
        mine = np.flatnonzero(same & (rows.user[1:] == user))
        forward = steps[mine][steps[mine] > 0]
        usual = np.median(forward) if len(forward) else 0.0
        pauses[1:][mine] = (steps[mine] < 0) | (steps[mine] > PAUSE_STEPS * usual)
    return pauses
