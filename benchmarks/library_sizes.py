"""Sizes of libfedsub, for each target that zig compiles it for, and of devices in TypeScript.

The devices, one file for Node and the page with its WebAssembly, are those that `make web` has
built; without them their rows stay. Of WebAssembly the bytes, packed by gzip, are what a page
loads. It has one instruction set. A library for x86-64 has three: the processor's best computes.
"""

import runpy
import tempfile
from pathlib import Path

from script import Known, put_rows, read_arguments

TINY = ["--names", "fedsub.wasm"]
LINES = ("fedsub.wasm ",)
LIBRARY = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "libfedsub.py"))
NAMES = [*LIBRARY["TARGETS"], *LIBRARY["OTHERS"]]
DIST = Path(__file__).parents[1] / "web" / "dist"
#: By row, the files that `make web` builds.
DEVICES = {"web/dist/device.js": "device.js", "web/dist/page": "page/*"}
ORDER = [(one,) for one in (*NAMES, *DEVICES)]


def main() -> None:
    """Build each file, print and write its line."""
    args = read_arguments(TINY, names=Known(NAMES), csv=Path)
    for name in args.names:
        with tempfile.TemporaryDirectory(prefix="fedsub-sizes-") as folder:
            path, _ = LIBRARY["build"](Path(folder), [name])
            row = {"file": name, "bytes": path.stat().st_size, "packed": LIBRARY["packed"](path)}
        promised = "yes" if name in LIBRARY["TARGETS"] else "no"
        row |= {"built by make wheels": promised}
        print(f"{name} {row['bytes']} bytes, {row['packed']} packed", flush=True)
        put_rows(args.csv, [row], ["file"], ORDER)
    for name, pattern in DEVICES.items():
        files = sorted(DIST.glob(pattern))
        if not files:
            print(f"left out: {name}: `make web` builds it")
            continue
        sizes = [(path.stat().st_size, LIBRARY["packed"](path)) for path in files]
        row = {"file": name, "bytes": sum(s for s, _ in sizes), "packed": sum(p for _, p in sizes)}
        row |= {"built by make wheels": "no"}
        print(f"{name} {row['bytes']} bytes, {row['packed']} packed", flush=True)
        put_rows(args.csv, [row], ["file"], ORDER)


if __name__ == "__main__":
    main()
