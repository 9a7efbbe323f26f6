"""Recordings and the windows that an import cuts of them, for devices in other languages.

Values are exact in float32, so that a device has them to the bit.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.windowing import Cut, Kept, windows

FEATURES = 2
#: Rows of a recording, how many come in a second and how late they are at most, in steps; the rate
#: that is wanted, a window's and a step's samples; rows after which time pauses, and which of how
#: many rows in a row have a label.
CASES: Mapping[str, Mapping[str, Any]] = {
    "at its rate": {"rows": 40},
    "overlapping": {"rows": 40, "step": 4},
    "of a clock that trembles": {"rows": 60, "late": 0.3},
    "faster, interpolated": {"rows": 60, "hz": 13.0},
    "much faster, averaged": {"rows": 200, "hz": 50.0, "late": 0.2},
    "half as fast again, averaged": {"rows": 100, "hz": 15.0},
    "slower, filled up": {"rows": 40, "hz": 6.0},
    "too slow": {"rows": 40, "hz": 4.0},
    "with gaps": {"rows": 90, "pauses": [25, 31, 60]},
    "with gaps at another rate": {"rows": 90, "hz": 17.0, "pauses": [31, 60]},
    "of several labels": {"rows": 90, "labels": 3, "each": 13},
    "of labels that tie": {"rows": 60, "labels": 2, "each": 4},
    "partly without a label": {"rows": 90, "labels": 2, "each": 11, "none": 1},
    "too short": {"rows": 5},
}


def rows(case: Mapping[str, Any]) -> Rows:
    """Return a case's rows."""
    n, random = case["rows"], np.random.default_rng(n_of(case))
    t = (np.arange(n) + random.uniform(-0.5, 0.5, n) * case.get("late", 0.0)) / case.get("hz", 10.0)
    for pause in case.get("pauses", ()):
        t[pause:] += 7.5
    x = random.normal(0, 3, (n, FEATURES)).astype(np.float32)
    y = np.arange(n) // case.get("each", n) % case.get("labels", 1) - case.get("none", 0)
    nothing = np.zeros(n, np.int64)
    return Rows("p1", nothing, nothing, y, t, x)


def n_of(case: Mapping[str, Any]) -> int:
    """Return a case's own seed."""
    return list(CASES.values()).index(case)


def recorded(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case's rows and windows; no windows where the recording is refused."""
    own = rows(case)
    purity = ImportOptions.purity
    cut = Cut(10.0, 8, case.get("step", 8), purity, None)
    found: dict[str, Any] = {"rate": cut.rate, "length": cut.length, "step": cut.step}
    found |= {"purity": purity, "t": own.times.tolist(), "x": own.x.tolist(), "y": own.y.tolist()}
    try:
        made = windows([own], cut, Kept(unlabelled=True), "p1", Dropped())
    except DataError:
        return found
    begins, labels = made.t.tolist(), made.y.tolist()
    return found | {"windows": {"x": made.x.tolist(), "y": labels, "t": begins}}
