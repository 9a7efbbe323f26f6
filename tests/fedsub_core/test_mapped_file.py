"""Arrays of a file without a name: equal to those that were written, and gone with the process."""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core import mapped_file
from fedsub_core.mapped_file import MappedFile, is_mapped, let_go, mapped

RNG = np.random.default_rng(0)
SOME: list[NDArray[Any]] = [
    RNG.integers(-(2**15), 2**15, 70_001).astype(np.int16),
    RNG.normal(size=(3, 5)).astype(np.float32),
    np.arange(4),
]


def resident() -> int:
    """Return the bytes of files that this process has in memory, on a disk or on none."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return sum(int(found[kind].split()[0]) * 1024 for kind in ("RssFile", "RssShmem"))


def test_arrays_are_those_that_were_written() -> None:
    back = mapped(SOME)
    assert all(map(is_mapped, back)) and not any(map(is_mapped, SOME))
    for one, other in zip(back, SOME, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
        let_go(one.__array_interface__["data"][0], one.nbytes)
        assert np.array_equal(one, other), "read once more"


def test_what_lies_in_memory_is_not_let_go() -> None:
    let_go(SOME[0].__array_interface__["data"][0], SOME[0].nbytes)
    assert SOME[0].any()


@pytest.mark.skipif(sys.platform != "linux", reason="what a system has in memory, it says on Linux")
def test_reading_takes_memory_until_it_is_let_go() -> None:
    large = mapped([np.ones(2**22, np.int64)])[0]
    before = resident()
    assert large.sum() == 2**22 and resident() > before + 2**24
    let_go(large.__array_interface__["data"][0], large.nbytes)
    assert resident() < before + 2**22


def test_a_file_goes_with_its_last_array() -> None:
    before = len(mapped_file._mapped)
    first, second = mapped([np.ones(5), np.zeros(5)])
    del first
    gc.collect()
    assert (second == 0).all()
    del second
    gc.collect()
    other = mapped([np.ones(1)])  # which looks for those that are gone
    assert len(mapped_file._mapped) <= before + 1 and is_mapped(other[0])


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_nobody_else_may_read_the_file() -> None:
    assert os.fstat(MappedFile()._file.fileno()).st_mode & 0o777 == 0o600


def test_a_folder_that_lacks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(OSError, match="gone"):
        mapped(SOME)


@pytest.mark.skipif(sys.platform == "win32", reason="a process ends otherwise")
def test_a_process_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import os, signal, numpy as np; from fedsub_core.mapped_file import mapped\n"
        "some = mapped([np.ones(2**20)]); assert some[0].all()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    where = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], env=where, check=False)
    assert ended.returncode == -9 and not list(tmp_path.iterdir())
