"""Writes ``images.lock``: every package of both images, with the hashes of its files.

``python docker/lock.py`` keeps the versions that the file has where ``constraints.txt`` and
``requirements.txt`` still allow them; ``--upgrade`` takes the newest. Needs the project's package
index, and uv, which comes with Flower.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from uv import find_uv_bin

HERE = Path(__file__).parent
LOCK = HERE / "images.lock"
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
    made = ["--generate-hashes", "--no-header", "--no-annotate", f"--output-file={LOCK}", "--quiet"]
    made += ["--universal", "--python-version=3.11", "--constraint=constraints.txt", *extras]
    command = [find_uv_bin(), "pip", "compile", "pyproject.toml", *made, *upgrade]
    subprocess.run(command, cwd=HERE.parent, check=True)
    packages = re.split(r"^(?=\S)", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    kept = [one for one in packages if one[:1] not in ("", "#") and not NOT_LOCKED.match(one)]
    LOCK.write_text(HEADER + "".join(kept), encoding="utf-8")
    sys.stdout.write(f"{LOCK}: {len(kept)} packages\n")


if __name__ == "__main__":
    main()
