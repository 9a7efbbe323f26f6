"""Wheels: what their names say, what is in them, and that one runs where pip put it."""

import os
import platform
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
WHEELS = runpy.run_path(str(ROOT / ".ci" / "wheels.py"))
PACKAGES = {"fedsub", "fedsub_client", "fedsub_core", "fedsub_data", "fedsub_server", "strategies"}
KERNELS = "fedsub_kernels.abi3.so"


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    with pytest.raises(SystemExit, match=r"got old\.whl, expected an empty folder"):
        WHEELS["build"](tmp_path, [])


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("other.txt", b"", "expected one module: is there a compiler?"),
        (KERNELS, b"\x7fELF" + bytes(14) + b"\xb7\0\0GLIBC_2.17\0", "for machine 0xb7, expected"),
        (KERNELS, b"\x7fELF" + bytes(14) + b"\x3e\0\0GLIBC_2.38\0", r"\(2, 38\)\], expected at"),
        (KERNELS, b"\x7fELF" + bytes(14) + b"\x3e\0\0", r"needs glibc \[\], expected"),
    ],
)
def test_a_wheel_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, module: bytes, words: str
) -> None:
    wheel = tmp_path / "one.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(name, module)
    with pytest.raises(SystemExit, match=words):
        WHEELS["build"].__globals__["_check_kernels"](wheel, "x86_64")


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


@pytest.mark.slow
@pytest.mark.skipif(platform.system() != "Linux", reason="wheels with kernels are for Linux")
def test_wheels_hold_what_they_should_and_one_runs_from_a_local_index(tmp_path: Path) -> None:
    machine = platform.machine()
    bare, compiled = WHEELS["build"](tmp_path / "dist", [machine])
    assert bare.name == f"fedsub-{VERSION}-py3-none-any.whl"
    assert compiled.name == f"fedsub-{VERSION}-cp311-abi3-manylinux_2_28_{machine}.whl"
    info = f"fedsub-{VERSION}.dist-info"
    common = {name for name in names(bare) if not name.startswith(info)}
    assert {name for name in names(compiled) if not name.startswith(info)} == common | {KERNELS}
    wings = {"fedsub_papers"} if (ROOT / "fedsub_papers").exists() else set()
    assert {name.partition("/")[0] for name in common} == PACKAGES | {"fedsub_watch"} | wings
    assert not [name for name in common if name.startswith("fedsub_papers/tests")]
    watch = {"fedsub_watch/recordings.npz", "fedsub_watch/LICENSE"}
    assert watch == {name for name in common if name.startswith("fedsub_watch")}
    licences = {f"{info}/licenses/LICENSE", f"{info}/licenses/datasets/watch/LICENSE"}
    assert licences <= names(bare) & names(compiled)
    cards = {
        f"fedsub_data/cards/{path.parent.name}/card.toml" for path in ROOT.glob("*/*/card.toml")
    }
    cards |= {
        str(path.relative_to(ROOT)) for path in ROOT.glob("fedsub_papers/datasets/*/card.toml")
    }
    assert cards <= common and "fedsub_data/cards/watch/run.toml" in common

    target, env = tmp_path / "site", os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    index = ["--no-index", "--find-links", str(tmp_path / "dist"), "--no-deps"]

    def python(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "pip", "install", "-q", *index, "--target", str(target), "fedsub")
    assert python("-m", "fedsub", "--version") == f"fedsub, version {VERSION}\n"
    said = python("-c", USE)
    place, kernels, clients = said.split()
    assert Path(place).is_relative_to(target)
    assert (kernels, clients) == ("True", "10")
    predicted = np.load(tmp_path / "probabilities.npy")
    assert predicted.shape == (3, 7) and np.allclose(predicted.sum(1), 1, atol=1e-6)


#: From the recordings that came along to a person's probabilities.
USE = """
import numpy, fedsub
from fedsub_core.kernels.library import kernels
people = fedsub.federation("watch")
run = fedsub.run(people, "local", 1, beside="", progress=False)
numpy.save("probabilities.npy", run.model("01")(people.clients["01"].x[:3]))
print(fedsub.__file__, kernels() is not None, len(run.persons()))
"""
