"""Training takes the pages that it has freed itself."""

import os
import platform
import resource
import subprocess
import sys

import pytest

STEPS = 8
SCRIPT = f"""
import resource, sys, torch
from fedsub.engines.heap import keep_freed_pages
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.models.kinds import cnn1d
from fedsub_core.training.loop import train
from fedsub_core.turn import Turn

torch.set_num_threads(1)
if sys.argv[1] == "kept":
    keep_freed_pages()
model, samples = cnn1d(9, 128, 6), 32 * {STEPS}
x, y = torch.randn(8, samples, 9, 128), torch.zeros(8, samples, dtype=torch.int64)
data = Stack(("a",) * 8, x, y, (samples,) * 8)
params = model.init(8, 0)
for round in (1, 2, 3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    train(model, params, data, Turn(round, 3, 0), TrainingSettings())
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what glibc does is changed")
def test_a_step_takes_the_pages_of_the_step_before() -> None:
    # glibc's first thresholds, which it else moves as it goes; of PyTorch's steps, as the
    # compiled kernels take one piece of memory for all of theirs.
    first = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}

    def faults(which: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, which],
            env=os.environ | first | {"FEDSUB_KERNELS": "off"},
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout)

    # An epoch's own data take pages, too: those of its shuffled samples.
    samples = 8 * 32 * STEPS * 9 * 128 * 4 / resource.getpagesize()
    assert faults("kept") < 2 * samples < faults("given back")
