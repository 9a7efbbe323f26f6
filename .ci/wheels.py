"""Build what `pip install fedsub` takes: `make wheels`, or `python .ci/wheels.py --out dist`.

A source archive, and of it: a wheel for any machine, where PyTorch computes everything; a wheel
with kernels for this machine's processor; and, by zig, which brings compilers for other ones, a
wheel with kernels for the other of x86-64 and arm64. All are built of the archive alone, so that
nothing stale of the folder gets in. A wheel with kernels serves every Python from 3.11 on.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The oldest glibc that wheels run with: that of Debian 10, RHEL 8, and PyTorch's own wheels.
GLIBC = 2, 28
#: Processors, and what stands in the file of a module for each (ELF's e_machine).
MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}
#: What this machine's own compiler compiles for; of other systems than Linux, none of them.
HERE = platform.machine() if sys.platform == "linux" else ""


def build(out: Path, machines: list[str]) -> list[Path]:
    """Build the archive and its wheels, the one for any machine first; return the wheels.

    Raises
    ------
    SystemExit
        Where a step fails, or a wheel is not what its name says.
    """
    out.mkdir(parents=True, exist_ok=True)
    if left := sorted(path.name for path in out.iterdir()):
        sys.exit(f"{out}: got {', '.join(left)}, expected an empty folder")
    sdist = f"from setuptools.build_meta import build_sdist; build_sdist({str(out.resolve())!r})"
    _run({}, "-c", sdist)
    (archive,) = out.glob("*.tar.gz")
    wheels = [_wheel(archive, {"FEDSUB_KERNELS": "off"}, "any")]
    for machine in machines:
        env = {"FEDSUB_KERNELS": "", "LDFLAGS": "-s", "_PYTHON_HOST_PLATFORM": f"linux-{machine}"}
        if machine != HERE:
            target = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
            env["CC"] = f"{sys.executable} -m ziglang cc -target {target}"
            env["LDFLAGS"] += " -lm"  # the system's own, not zig's
        wheels.append(_wheel(archive, env, f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"))
        _check_kernels(wheels[-1], machine)
    return wheels


def _wheel(archive: Path, env: dict[str, str], tag: str) -> Path:
    option = [] if tag == "any" else [f"--config-settings=--build-option=--plat-name={tag}"]
    with tempfile.TemporaryDirectory() as folder:
        command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder]
        _run(env, *command, *option, str(archive.resolve()))
        (made,) = Path(folder).iterdir()
        return Path(shutil.move(made, archive.parent))


def _run(env: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def _check_kernels(wheel: Path, machine: str) -> None:
    """Refuse a wheel without kernels, or with those of another processor or of a newer glibc."""
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if name.endswith(".so")]
        if names != ["fedsub_kernels.abi3.so"]:
            sys.exit(f"{wheel}: got kernels {names}, expected one module: is there a compiler?")
        module = file.read(names[0])
    if (found := int.from_bytes(module[18:20], "little")) != MACHINES[machine]:
        sys.exit(f"{wheel}: got a module for machine {found:#x}, expected {MACHINES[machine]:#x}")
    needs = [(int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", module)]
    if not needs or max(needs) > GLIBC:
        sys.exit(f"{wheel}: got a module that needs glibc {needs}, expected at most {GLIBC}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"), help="an empty folder to fill")
    can = [machine for machine in MACHINES if machine == HERE or find_spec("ziglang") is not None]
    parser.add_argument("--machines", nargs="*", choices=list(MACHINES), default=can,
                        help="processors to compile kernels for")  # fmt: skip
    options = parser.parse_args()
    for built in build(options.out, options.machines):
        print(f"{built} {built.stat().st_size / 1e6:.1f} MB")
