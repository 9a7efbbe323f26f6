"""The kernels are built where there is a compiler; without one everything else installs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def built(compiler: str, folder: Path, **env: str) -> list[str]:
    """Return the modules that are built with a compiler."""
    places = ["--build-lib", str(folder / "lib"), "--build-temp", str(folder / "temp")]
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *places],
        cwd=ROOT,
        env=os.environ | {"CC": compiler} | env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [path.name for path in (folder / "lib").glob("*")]


def test_without_a_compiler_they_are_left_out(tmp_path: Path) -> None:
    assert built("/bin/false", tmp_path) == []


def test_a_wheel_for_any_machine_has_none(tmp_path: Path) -> None:
    assert built("cc", tmp_path, FEDSUB_KERNELS="off") == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_compiler_builds_them(tmp_path: Path) -> None:
    """Nothing is optimised, in a tenth of the time; what `make` installs and tests run is."""
    quick = tmp_path / "cc"
    quick.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    quick.chmod(0o755)
    (module,) = built(str(quick), tmp_path)
    assert module.startswith("fedsub_kernels.")
