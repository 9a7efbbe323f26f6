"""Random chains through kernels that AddressSanitizer and UBSan watch, beside PyTorch."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fedsub_core.kernels import library

from .random_chains import try_chain, try_encoder

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "fedsub_core" / "kernels"
WATCHED = "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"
#: As ``setup.py`` has them, but unoptimised: it compiles in a quarter of the time.
FLAGS = "-O0", "-g", "-std=gnu11", "-ffp-contract=fast", "-Wno-psabi", "-fPIC", "-shared"
#: How many random chains, and seconds at most.
CHAINS, LIMIT = 90, 900

#: What a copy is broken by, and what is then found: one number too many is read of the last sample,
#: the buffer of a layer's biases is one unit too long, a count leaves what numbers can be, room
#: for a window's values is one too small.
BROKEN = {
    "blocks.h": (
        "k < numbers; k++) column[k * WIDTH] = from ? from[k] : 0;",
        "k <= numbers; k++) column[k * WIDTH] = from ? from[k] : 0;",
        "heap-buffer-overflow",
    ),
    "gradients.h": (
        "for (d = 0; d < layer->units; d++) take_one(",
        "for (d = 0; d <= layer->units; d++) take_one(",
        "heap-buffer-overflow",
    ),
    "encoder.h": ("const int64_t one = ", "most += INT32_MAX; const int64_t one = ", "overflow"),
    "statistics.h": (
        "malloc(some * series * time * sizeof(int16_t))",
        "malloc((some * series * time - 1) * sizeof(int16_t))",
        "heap-buffer-overflow",
    ),
}


@pytest.fixture(scope="module")
def runtime(kernels: library.Kernels) -> str:
    """The sanitisers' library, which must be loaded before Python's own memory is."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc here, whose sanitisers watch the kernels")
    named = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    path = named.stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip("this gcc comes without its sanitisers")
    return path


def build(sources: Path, folder: Path, kernels: library.Kernels) -> None:
    """Build the watched library into a folder; it says it is of the sources that are installed."""
    includes = f"-I{sysconfig.get_path('include')}"
    files = [str(path) for path in sorted(sources.glob("*.c"))]
    named = f'-DFEDSUB_SOURCE="{kernels.source}"'
    out = ["-o", str(folder / f"{library.MODULE}.abi3.so"), "-lm"]
    subprocess.run(["gcc", *FLAGS, *WATCHED, includes, named, *files, *out], check=True)


def run(folder: Path, runtime: str, chains: int) -> subprocess.CompletedProcess[str]:
    """Try random chains in a process that finds the folder's library first."""
    environment = os.environ | {
        "LD_PRELOAD": runtime,
        # Python and PyTorch keep memory to their end.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "OMP_NUM_THREADS": "1",
    }
    script = Path(__file__).with_name("random_chains.py")
    return subprocess.run(
        [sys.executable, str(script), str(chains)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=folder,
    )


@pytest.mark.parametrize("seed", range(1000, 1012))
def test_random_chains_are_pytorchs(seed: int, kernels: library.Kernels) -> None:
    try_chain(seed)
    try_encoder(seed)


@pytest.mark.slow
def test_sanitisers_find_nothing(runtime: str, kernels: library.Kernels, tmp_path: Path) -> None:
    build(SOURCES, tmp_path, kernels)
    done = run(tmp_path, runtime, CHAINS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{CHAINS} random chains are PyTorch's\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.release
def test_they_find_what_is_broken(
    name: str, runtime: str, kernels: library.Kernels, tmp_path: Path
) -> None:
    right, wrong, found = BROKEN[name]
    copy = tmp_path / "sources"
    copy.mkdir()
    for path in SOURCES.glob("*.[ch]"):
        shutil.copy(path, copy)
    text = (copy / name).read_text()
    assert text.count(right) == 1, "the line that is broken here reads otherwise now"
    (copy / name).write_text(text.replace(right, wrong))
    build(copy, tmp_path, kernels)
    done = run(tmp_path, runtime, CHAINS)
    assert done.returncode != 0 and found in done.stderr and name in done.stderr, done.stdout
