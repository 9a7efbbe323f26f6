"""Build libfedsub for devices without Python: `python .ci/libfedsub.py --out dist/libfedsub`.

The kernels as a library in C (`fedsub_core/kernels/fedsub.h`), compiled by zig: as WebAssembly
that imports nothing, and as shared libraries for Linux. The header is put beside them.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import subprocess
import sys
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "fedsub_core" / "kernels"
HEADER = KERNELS / "fedsub.h"
#: As setup.py has them.
FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
#: Files, and what zig compiles each for.
TARGETS = {
    "fedsub.wasm": "wasm32-wasi",
    "libfedsub-x86_64.so": "x86_64-linux-gnu.2.28",
    "libfedsub-aarch64.so": "aarch64-linux-gnu.2.28",
}
#: What zig compiles, too, but nobody here has run.
OTHERS = {
    "libfedsub-armv7.so": "arm-linux-gnueabihf.2.28",
    "libfedsub-riscv64.so": "riscv64-linux-gnu.2.28",
    "libfedsub-arm64.dylib": "aarch64-macos",
    "fedsub-x86_64.dll": "x86_64-windows-gnu",
}
#: Bytes of the WebAssembly at most, as gzip packs it.
MOST_PACKED = 80_000


def functions() -> list[str]:
    """Return the functions that the header offers."""
    return re.findall(r"^FEDSUB_VISIBLE .*?\b(fedsub_\w+)[(;]", HEADER.read_text(), re.M)


def sources() -> list[Path]:
    """Return the library's sources: all but the module of Python."""
    return [path for path in sorted(KERNELS.glob("*.c")) if path.name != "module.c"]


def command(target: str, out: Path) -> list[str]:
    """Return the command that compiles the library for a target of zig's."""
    files = map(str, sources())
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS, *files]
    if target.startswith("wasm"):
        exported = [f"-Wl,--export={name}" for name in functions()]
        how = ["-mexec-model=reactor", "-mcpu=generic+simd128", *exported]
    else:
        how = ["-shared", "-fPIC", "-fvisibility=hidden", "-DFEDSUB_CHOSEN=", "-lm"]
    return [*zig, *how, "-s", "-o", str(out)]


def build(out: Path, names: list[str]) -> list[Path]:
    """Build the library into a folder; return its files, the header last.

    Raises
    ------
    SystemExit
        Where zig fails, or the WebAssembly is larger than it may be.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        done = subprocess.run(
            command((TARGETS | OTHERS)[name], out / name), capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{name}: {done.stderr or done.stdout}")
        if name.endswith(".wasm") and (size := packed(out / name)) > MOST_PACKED:
            sys.exit(f"{name}: got {size:,} bytes packed, expected {MOST_PACKED:,} at most")
    files = [out / name for name in names]
    return [*files, Path(shutil.copy(HEADER, out))]


def packed(path: Path) -> int:
    """Return the size of a file as gzip packs it, in bytes."""
    return len(gzip.compress(path.read_bytes(), 9))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist/libfedsub"), help="a folder")
    parser.add_argument("--names", nargs="+", choices=[*TARGETS, *OTHERS],
                        default=list(TARGETS), help="files to build")  # fmt: skip
    options = parser.parse_args()
    for path in build(options.out, options.names):
        print(f"{path} {path.stat().st_size:,} bytes, {packed(path):,} packed")
