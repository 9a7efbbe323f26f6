"""A command that a signal ends leaves nothing of people's data, here or in a temporary folder."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fedsub.commands.interruption import interruptible
from fedsub.deploy.signals import Interrupted
from fedsub.testing.cover import LATER
from fedsub_core.errors import DataError

Handler = Callable[..., object] | int | None
FEDSUB = str(Path(sys.executable).parent / "fedsub")
#: Seconds until an import has rows on the disk, at most: of a machine that does much else.
PATIENCE = 120.0


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(n, marks=LATER) for n in (signal.SIGHUP, signal.SIGINT))],
)
def test_an_import_leaves_no_rows(tmp_path: Path, number: signal.Signals) -> None:
    draw, passing = np.random.default_rng(number), tmp_path / "passing"
    passing.mkdir()
    rows = "\n".join(f"p{i % 9},walk,{value:.6f}" for i, value in enumerate(draw.random(200_000)))
    for part in range(8):
        (tmp_path / f"rows{part}.csv").write_text(f"subject,label,x\n{rows}\n")
    command = [FEDSUB, "data", "import", *map(str, tmp_path.glob("rows*.csv"))]
    command += ["--out", str(tmp_path / "out"), "--window", "none"]
    before = sorted(tmp_path.iterdir())
    with subprocess.Popen(
        command, env={"TMPDIR": str(passing), "PATH": "/bin"}, text=True, stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:  # fmt: skip
        try:
            deadline = time.monotonic() + PATIENCE
            while not list(passing.glob("fedsub-import-*/rows.db")):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 128 + number, said
    assert f"Interrupted by {number.name}. Nothing unfinished is left" in said
    assert list(passing.iterdir()) == [] and sorted(tmp_path.iterdir()) == before


@pytest.fixture
def heeded(number: signal.Signals) -> Iterator[Handler]:
    """The handler of a signal that is not ignored, as it is where tests run in the background."""
    handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, handler)
    yield handler
    signal.signal(number, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("fails", [False, True])
def test_a_signal_that_comes_in_a_callback_ends_the_block(
    number: signal.Signals, heeded: Handler, fails: bool
) -> None:
    """What is raised in a callback of a library or of the collector is lost."""

    class Collected:
        def __del__(self) -> None:
            signal.raise_signal(number)

    with pytest.raises(Interrupted) as interrupted, interruptible():
        Collected()
        if fails:
            raise DataError("the command went on, and failed")
    assert interrupted.value.number == number and signal.getsignal(number) is heeded
