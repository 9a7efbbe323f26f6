"""Sizes of libfedsub, for each target that zig compiles it for.

    python benchmarks/library_sizes.py [--names fedsub.wasm libfedsub-x86_64.so ...]
        [--csv benchmarks/results/library-sizes.csv]

Of WebAssembly the bytes, packed by gzip, are what a page loads. It has one instruction set. A
library for x86-64 has three, of which the processor's best computes.
"""

from __future__ import annotations

import argparse
import runpy
import tempfile
from pathlib import Path

from script import parsed, put_rows, today

TINY = ["--names", "fedsub.wasm"]
#: What the lines of results begin with.
LINES = ("fedsub.wasm ",)
LIBRARY = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "libfedsub.py"))
NAMES = [*LIBRARY["TARGETS"], *LIBRARY["OTHERS"]]


def main() -> None:
    """Build each file, print and write its line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--csv", type=Path, help="the file of results")
    args = parsed(parser, TINY)
    for name in args.names:
        with tempfile.TemporaryDirectory(prefix="fedsub-sizes-") as folder:
            path, _ = LIBRARY["build"](Path(folder), [name])
            row = {"file": name, "bytes": path.stat().st_size, "packed": LIBRARY["packed"](path)}
        promised = "yes" if name in LIBRARY["TARGETS"] else "no"
        row |= {"built by make wheels": promised, "written": today()}
        print(f"{name} {row['bytes']} bytes, {row['packed']} packed", flush=True)
        if args.csv:
            put_rows(args.csv, [row], ["file"], [(one,) for one in NAMES])


if __name__ == "__main__":
    main()
