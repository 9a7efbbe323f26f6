"""CPU seconds that features of windows take, compiled and by NumPy, without and with statistics.

Random windows, three channels a sensor; of each the best repetition counts, and kernels alone and
with statistics take turns. FEDSUB_KERNELS chooses an instruction set. A line says
"equal" where both gave the same bits, and how many times as long all takes as kernels alone.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from script import put_rows, read_arguments
from turns import seconds_of

from fedsub_core.data.sensors import Windows
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder
from fedsub_core.kernels import library

TINY = ["--windows", "20", "--size", "5", "--time", "40", "--repeat", "1"]
LINES = ("3 x 40 ", "9 x 40 ")


def timed(
    encoders: Sequence[KernelsEncoder], x: NDArray[np.float32], repeat: int
) -> list[tuple[float, NDArray[np.float32]]]:
    """Return the least seconds of each encoder, which take turns, and the features."""
    turns = [[seconds_of(partial(e.encode, x)) for e in encoders] for _ in range(repeat)]
    least = np.min(turns, 0).tolist()
    return [(seconds, e.encode(x)) for seconds, e in zip(least, encoders, strict=True)]


def main() -> None:
    arguments = read_arguments(
        TINY,
        windows=7200,
        channels=[3, 9],
        size=(100, "N of kernels:N"),
        time=128,
        repeat=3,
        csv=Path,
    )
    compiled = library.kernels()
    for channels in arguments.channels:
        sensors = tuple((i, i + 1, i + 2) for i in range(0, channels, 3))
        shape = Windows((channels, arguments.time), sensors)
        x = np.random.default_rng(0).standard_normal((arguments.windows, *shape), np.float32)
        kinds = KernelsEncoder, StatisticsEncoder
        encoders = [kind(arguments.size, 0, shape) for kind in kinds]
        found = timed(encoders, x, arguments.repeat)
        with library.switched_off():
            expected = timed(encoders, x, arguments.repeat)
        name = compiled.variant if compiled else "numpy"
        for encoder, one, other in zip(encoders, found, expected, strict=True):
            equal = "equal" if np.array_equal(one[1], other[1]) else "NOT EQUAL"
            times = f"{one[0] / found[0][0]:.2f}"
            print(
                f"{channels} x {arguments.time}  {encoder.text} {name} {one[0]:.3f} s  "
                f"numpy {other[0]:.3f} s  {times} times  {equal}"
            )
            row = {"windows": f"{channels} x {arguments.time}", "encoder": encoder.text}
            row |= {"by": name, "seconds": f"{one[0]:.3f}", "NumPy's": f"{other[0]:.3f}"}
            row |= {"times kernels alone": times}
            put_rows(arguments.csv, [row], ["windows", "encoder", "by"])


if __name__ == "__main__":
    main()
