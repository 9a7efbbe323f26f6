"""CPU seconds that features of windows take, compiled and by NumPy.

    python benchmarks/encoders.py [--windows 7200] [--size 100] [--time 128] [--repeat 3]

Random windows of 3 and of 9 channels; of each the best repetition counts. FEDSUB_KERNELS chooses an
instruction set. A line says "equal" where both gave the same bits.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from script import parsed
from turns import seconds_of

from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.kernels import library

TINY = ["--windows", "20", "--size", "5", "--time", "40", "--repeat", "1"]
#: What the lines of results begin with.
LINES = ("3 x 40 ", "9 x 40 ")


def timed(
    encoder: KernelsEncoder, x: NDArray[np.float32], repeat: int
) -> tuple[float, NDArray[np.float32]]:
    """Return the least seconds, and the features."""
    return min(seconds_of(lambda: encoder.encode(x)) for _ in range(repeat)), encoder.encode(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=7200)
    parser.add_argument("--size", type=int, default=100, help="N of kernels:N")
    parser.add_argument("--time", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parsed(parser, TINY)
    compiled = library.kernels()
    for channels in (3, 9):
        shape = channels, arguments.time
        x = np.random.default_rng(0).standard_normal((arguments.windows, *shape), np.float32)
        encoder = KernelsEncoder(arguments.size, 0, shape)
        seconds, found = timed(encoder, x, arguments.repeat)
        with library.switched_off():
            numpys, expected = timed(encoder, x, arguments.repeat)
        equal = "equal" if np.array_equal(found, expected) else "NOT EQUAL"
        name = compiled.variant if compiled else "numpy"
        print(
            f"{channels} x {arguments.time}  {name} {seconds:.3f} s  numpy {numpys:.3f} s  {equal}"
        )


if __name__ == "__main__":
    main()
