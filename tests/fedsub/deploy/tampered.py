"""Devices that run `tampering_app.py` in the place of FedSub's own ClientApp."""

import os
import shutil
from pathlib import Path

import fedsub_client

APP = Path(__file__).with_name("tampering_app.py")
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def tampered_path(folder: Path) -> str:
    """Make a package in `folder` that hides `fedsub_client.app`; return a PYTHONPATH to it."""
    shim, real = folder / "fedsub_client", Path(fedsub_client.__file__).parent
    shim.mkdir(parents=True)
    # The package's other modules are the installed ones.
    (shim / "__init__.py").write_text(f"__path__.append({str(real)!r})\n")
    shutil.copy(APP, shim / "app.py")
    for path in BENCHMARKS.glob("attack*.py"):
        shutil.copy(path, folder)
    before = filter(None, [os.environ.get("PYTHONPATH")])
    return os.pathsep.join([str(folder), str(real.parent), *before])
