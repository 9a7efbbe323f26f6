"""Levels of windows that the compiled encoders of other processors find, beside NumPy's here.

    python benchmarks/other_chips.py [--chips cc-O0 cc x86_64 aarch64 arm riscv64] [--qemu FOLDER]
        [--windows 20] [--csv benchmarks/results/other-chips.csv]

The C sources are compiled with `other_chips.c` by cc for this processor, and by zig
(`pip install ziglang`) for others. Their programs run in QEMU's emulators, which lie in FOLDER
(Debian's package qemu-user-static). `make other-chips` gets both.

Windows are random, constant, clipped, quiet and odd. Each stack is encoded as a whole, and its
windows alone. The script fails where a level is not NumPy's, or a compiler or emulator is missing.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from script import parsed, put_rows, today

from fedsub_core.data.sensors import Windows, sensors_of
from fedsub_core.encoders.names import GROUPS, PER_KERNEL
from fedsub_core.encoders.spectrum import length_of, turns
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder, sensor_table
from fedsub_core.kernels import library

TINY = ["--chips", "cc-O0", "cc", "--windows", "9"]
#: What the lines of results begin with.
LINES = ("cc-O0 ", "cc ")
DRIVER = Path(__file__).with_suffix(".c")
KERNELS = Path(library.__file__).parent
#: As setup.py has them, but for how much is optimised.
FLAGS = ["-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
SIZE = 40
SHAPES = (
    Windows((1, 16), ()),
    Windows((3, 17), ((0, 1, 2),)),
    Windows((6, 128), ((0, 1, 2), (3, 4, 5))),
    Windows((9, 200), ((0, 3), (1, 2, 4, 8))),
    Windows((60, 24), tuple((i, i + 1, i + 2) for i in range(0, 60, 3))),
    Windows((2, 5000), ((0, 1),)),
)


@dataclass(frozen=True)
class Chip:
    """A processor and what compiles for it.

    Parameters
    ----------
    compiler : the command.
    machine : its processor, as QEMU names it; "": this one.
    """

    compiler: Sequence[str]
    machine: str = ""


def zig(target: str, machine: str) -> Chip:
    """Return a chip that zig compiles for."""
    command = (sys.executable, "-m", "ziglang", "cc", "-target", target)
    return Chip((*command, "-O3", "-static"), machine if machine != platform.machine() else "")


CHIPS = {
    "cc-O0": Chip(("cc", "-O0")),
    "cc": Chip(("cc", "-O3")),
    "x86_64": zig("x86_64-linux-musl", "x86_64"),
    "aarch64": zig("aarch64-linux-musl", "aarch64"),
    "arm": zig("arm-linux-musleabihf", "arm"),
    "riscv64": zig("riscv64-linux-musl", "riscv64"),
}


def made(n: int, shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Return windows ``[n, channels, time]`` in steps, the first nine as odd as there are."""
    steps = np.random.default_rng(0).integers(-2048, 2048, (n, *shape)).astype(np.int16)
    t = np.arange(shape[1])
    steps[0], steps[1], steps[2] = 0, -2048, 2047
    steps[3] = np.where(t % 2, 2047, -2048)
    steps[4] = np.where(t < shape[1] // 2, 2047, -2048)
    steps[5] = np.where(t == shape[1] // 3, -2048, 2047)
    steps[6], steps[6, 0, 0] = 0, 1
    steps[7] >>= 10
    steps[8] = np.where(steps[8] < 0, -2048, 2047)
    return steps


def given(encoder: StatisticsEncoder, steps: NDArray[np.int16]) -> bytes:
    """Return the driver's input."""
    sensors, table = sensor_table(sensors_of(encoder.input_shape)), turns(length_of(steps.shape[2]))
    numbers = [encoder.size, 2 ** len(GROUPS) - 1, len(sensors), len(table), encoder.statistics]
    parts = np.array([*numbers, *steps.shape]), encoder.table, sensors, table, steps
    return b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)


def levels(
    command: Sequence[str], encoder: StatisticsEncoder, steps: NDArray[np.int16]
) -> NDArray[np.int8]:
    """Return ``[n, features]`` that a compiled driver finds."""
    done = subprocess.run(command, input=given(encoder, steps), capture_output=True, check=True)
    found, n = np.frombuffer(done.stdout, np.int8), len(steps)
    answers = n * encoder.size * PER_KERNEL
    halves = found[answers:].reshape(n, -1), found[:answers].reshape(n, -1)
    return np.concatenate(halves, 1)


def command_of(chip: Chip, variant: str, folder: Path, qemu: Path | None) -> list[str]:
    """Compile the driver for a chip; return the command that runs it."""
    program = folder / "driver"
    sources = str(DRIVER), str(KERNELS / f"{variant}.c"), f"-I{KERNELS}", f"-DVARIANT={variant}"
    subprocess.run([*chip.compiler, *FLAGS, *sources, "-o", program, "-lm"], check=True)
    if not chip.machine:
        return [str(program)]
    name = f"qemu-{chip.machine}-static"
    emulator = shutil.which(name, path=str(qemu) if qemu else None)
    if emulator is None:
        sys.exit(f"{chip.machine}: got no {name}, expected one in --qemu or PATH: make other-chips")
    return [emulator, str(program)]


def differing(command: Sequence[str], windows: int) -> tuple[int, int]:
    """Return the number of levels, and of those that differ from NumPy's."""
    count = wrong = 0
    for shape in SHAPES:
        encoder, steps = StatisticsEncoder(SIZE, 0, shape), made(windows, shape)
        with library.switched_off():
            expected = encoder.levels(steps)
        alone = [levels(command, encoder, one[None]) for one in steps]
        for found in (levels(command, encoder, steps), np.concatenate(alone)):
            count, wrong = count + found.size, wrong + int((found != expected).sum())
    return count, wrong


def main() -> None:
    """Compile for each chip, print and write its line; fail if any level differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chips", nargs="+", choices=list(CHIPS), default=list(CHIPS))
    parser.add_argument("--qemu", type=Path, help="the folder of QEMU's emulators")
    parser.add_argument("--windows", type=int, default=20, help="of each shape, 9 at least")
    parser.add_argument("--csv", type=Path, help="the file of results")
    args = parsed(parser, TINY)
    bad = []
    for name in args.chips:
        with tempfile.TemporaryDirectory(prefix="fedsub-chips-") as folder:
            command = command_of(CHIPS[name], "portable", Path(folder), args.qemu)
            count, wrong = differing(command, args.windows)
        print(f"{name} {count} levels, {wrong} differ", flush=True)
        bad += [name] * (wrong > 0)
        row = {"chip": name, "shapes": len(SHAPES), "windows": args.windows * len(SHAPES)}
        row |= {"levels": count, "differ from NumPy's": wrong, "written": today()}
        if args.csv:
            put_rows(args.csv, [row], ["chip"], [(one,) for one in CHIPS])
    if bad:
        sys.exit(f"levels differ on {', '.join(bad)}")


if __name__ == "__main__":
    main()
