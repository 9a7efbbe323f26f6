"""Writes ``images.lock``: every package of both images, with the hashes of its files.

And ``images-1.42.lock``, the same with the Flower whose SuperNodes speak HTTP.

``python docker/lock.py`` keeps the versions that the file has where ``constraints.txt`` and
``requirements.txt`` still allow them; ``--upgrade`` takes the newest. Needs the project's package
index, and uv, which comes with Flower.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from uv import find_uv_bin

HERE = Path(__file__).parent
#: By lock: files of constraints, of which a later one takes the place of what an earlier one says.
LOCKS = {
    "images.lock": ("constraints.txt",),
    "images-1.42.lock": ("constraints.txt", "constraints-http.txt"),
}
#: What images may install beside requirements.txt.
EXTRAS = ("run", "privacy")
#: PyTorch's CPU build is of its own index, and needs no CUDA.
NOT_LOCKED = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")
HEADER = "# Written by docker/lock.py of requirements.txt, constraints.txt and pyproject.toml.\n"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upgrade", action="store_true", help="take the newest allowed versions")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []
    extras = [f"--extra={extra}" for extra in EXTRAS]
    for name, files in LOCKS.items():
        lock = HERE / name
        made = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet", *extras]
        made += [f"--output-file={lock}", "--universal", "--python-version=3.11", "--constraint=-"]
        command = [find_uv_bin(), "pip", "compile", "pyproject.toml", *made, *upgrade]
        subprocess.run(command, cwd=HERE.parent, check=True, input=constraints(files), text=True)
        packages = re.split(r"^(?=\S)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
        kept = [one for one in packages if one[:1] not in ("", "#") and not NOT_LOCKED.match(one)]
        lock.write_text(HEADER + "".join(kept), encoding="utf-8")
        sys.stdout.write(f"{lock}: {len(kept)} packages\n")


def constraints(files: Sequence[str]) -> str:
    """Return the lines of files of constraints, one a package: that of the last file."""
    lines = dict[str, str]()
    for name in files:
        for line in (HERE.parent / name).read_text("utf-8").splitlines():
            if line and not line.startswith("#"):
                lines[re.split(r"[=<>! ;]", line)[0].lower()] = line
    return "\n".join(lines.values()) + "\n"


if __name__ == "__main__":
    main()
