"""What libfedsub computes on other processors, beside NumPy's levels and this machine's numbers.

The library is compiled with `calls.c` by cc for this processor, and by zig (`pip install ziglang`)
for others. Their programs run in QEMU's emulators, which lie in FOLDER (Debian's package
qemu-user-static); WebAssembly runs in Node. `make other-chips` gets zig and QEMU.

Windows are random, constant, clipped, quiet and odd. Each stack is encoded as a whole, and its
windows alone. Then two models are trained for 200 steps, tested and related on random samples.
The script fails where a level is not NumPy's, where a bit of a number is not this machine's, which
is an x86-64 with fused products, or where a compiler or emulator is missing. Chips that do not fuse
products with sums have the bits of this machine's portable kernels.
"""

import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from calls import Array, At, Image
from chip_images import encode, random_windows, trained
from script import Known, put_rows, read_arguments

from fedsub_core.data.sensors import Windows
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder
from fedsub_core.kernels import library

TINY = ["--chips", "cc-O0", "cc", "x86_64", "wasm", "--windows", "9"]
LINES = ("cc-O0 ", "cc ", "x86_64 ", "wasm ")
HERE = Path(__file__).parent
LIBRARY = runpy.run_path(str(HERE.parent / ".ci" / "libfedsub.py"))
#: Where `make other-chips` unpacks the emulators.
QEMU = Path(sys.prefix, "qemu", "usr", "bin")
#: Epochs of ten steps.
EPOCHS = 20
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
    fused : whether products are fused with sums.
    flags : of the compiler, beside the library's.
    """

    compiler: Sequence[str]
    machine: str = ""
    fused: bool = True
    flags: Sequence[str] = ()


def zig(target: str, machine: str, fused: bool = True) -> Chip:
    """Return a chip that zig compiles for."""
    command = (sys.executable, "-m", "ziglang", "cc", "-target", target, "-static")
    return Chip(command, machine if machine != platform.machine() else "", fused)


CHIPS = {
    "cc-O0": Chip(("cc",), fused=False, flags=["-O0"]),
    "cc": Chip(("cc",)),
    "x86_64": zig("x86_64-linux-musl", "x86_64"),
    "aarch64": zig("aarch64-linux-musl", "aarch64"),
    "arm": zig("arm-linux-musleabihf", "arm", fused=False),
    "riscv64": zig("riscv64-linux-musl", "riscv64"),
    "wasm": Chip((), "wasm", fused=False),
}


def command_of(chip: Chip, folder: Path, qemu: Path | None) -> list[str]:
    """Compile for a chip; return the command that makes an image's calls."""
    if chip.machine == "wasm":
        wasm, _ = LIBRARY["build"](folder, ["fedsub.wasm"])
        return ["node", str(HERE / "calls.mjs"), str(wasm)]
    program, includes = folder / "calls", f"-I{LIBRARY['KERNELS']}"
    files = str(HERE / "calls.c"), *map(str, LIBRARY["sources"]()), "-o", str(program), "-lm"
    subprocess.run([*chip.compiler, *LIBRARY["FLAGS"], *chip.flags, includes, *files], check=True)
    if not chip.machine:
        return [str(program)]
    name = f"qemu-{chip.machine}-static"
    emulator = shutil.which(name, path=str(qemu) if qemu else None)
    if emulator is None:
        sys.exit(f"{chip.machine}: got no {name}, expected one in --qemu or PATH: make other-chips")
    return [emulator, str(program)]


def answered(command: Sequence[str], image: Image) -> list[Array]:
    """Return an image's buffers as a compiled program leaves them."""
    done = subprocess.run(command, input=image.content, capture_output=True, check=True)
    return image.answer(done.stdout)


def differing(
    command: Sequence[str], windows: int, shapes: Sequence[Windows] = SHAPES
) -> tuple[int, int]:
    """Return the number of levels, and of those that differ from NumPy's."""
    image, places, expected = Image(), list[list[At]](), list[Array]()
    for shape in shapes:
        encoder, steps = StatisticsEncoder(SIZE, 0, shape), random_windows(windows, shape)
        with library.switched_off():
            levels = encoder.levels(steps)
        for stack in (slice(None), *(slice(i, i + 1) for i in range(windows))):
            places.append(encode(image, encoder, steps[stack]))
            expected.append(levels[stack])
    buffers, count, wrong = answered(command, image), 0, 0
    for found, right in zip(places, expected, strict=True):
        halves = [buffers[at.buffer].reshape(len(right), -1) for at in found]
        count, wrong = count + right.size, wrong + int((np.concatenate(halves, 1) != right).sum())
    return count, wrong


def apart(command: Sequence[str], fused: bool, epochs: int = EPOCHS) -> tuple[int, int]:
    """Return the count of numbers that two trained models make, and of those that differ here."""
    image, places = trained(epochs)
    expected, found = image.here("" if fused else "_portable"), answered(command, image)
    pairs = [(expected[at.buffer], found[at.buffer]) for at in places]
    return sum(a.size for a, _ in pairs), sum(int((a != b).sum()) for a, b in pairs)


def main() -> None:
    """Compile for each chip, print and write its line; fail if anything differs."""
    args = read_arguments(
        TINY,
        chips=Known(CHIPS),
        qemu=(QEMU, "the folder of QEMU's emulators"),
        windows=(20, "of each shape, 9 at least"),
        csv=Path,
    )
    bad = []
    for name in args.chips:
        with tempfile.TemporaryDirectory(prefix="fedsub-chips-") as folder:
            command = command_of(CHIPS[name], Path(folder), args.qemu)
            count, wrong = differing(command, args.windows)
            numbers, differ = apart(command, CHIPS[name].fused)
        print(
            f"{name} {count} levels, {wrong} differ; {numbers} numbers, {differ} differ", flush=True
        )
        bad += [name] * bool(wrong + differ)
        row = {"chip": name, "fused": "yes" if CHIPS[name].fused else "no", "levels": count}
        row |= {"differ from NumPy's": wrong, "numbers": numbers, "differ from x86-64's": differ}
        put_rows(args.csv, [row], ["chip"], [(one,) for one in CHIPS])
    if bad:
        sys.exit(f"levels or numbers differ on {', '.join(bad)}")


if __name__ == "__main__":
    main()
