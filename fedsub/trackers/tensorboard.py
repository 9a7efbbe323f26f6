"""TensorBoard's event files of a run, by PyTorch's writer: ``<run>/tensorboard/<method>/``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsub.trackers.series import Tracked
from fedsub_core.errors import RunError
from fedsub_core.extras import require

TENSORBOARD = "tensorboard"
# By which our files are known, so that nobody else's is removed.
_SUFFIX = ".fedsub"
#: What runs are compared by beside their settings.
_REACHED = "people/macro_f1"


class EventFiles:
    """Event files of a run's methods: written anew once, then added to while the run goes on.

    `folder`: of the run.

    Raises ConfigError where TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        require("--tensorboard", "tensorboard")
        self.folder = folder / TENSORBOARD
        self._open: dict[str, Any] = {}
        self._last: dict[tuple[str, str], int] = {}

    @property
    def place(self) -> str:
        """How to look at them."""
        return f"TensorBoard: tensorboard --logdir {self.folder}"

    def update(self, found: Sequence[Tracked]) -> None:
        """Write what is not written yet.

        Raises RunError if a file cannot be written.
        """
        for one in found:
            # Interrupted half-way, a file is not known as open, and is made anew.
            writer = self._open.pop(one.method, None)
            try:
                if writer is None:
                    writer = self._begin(one)
                self._add(writer, one)
                writer.flush()
            except OSError as error:
                said = f"{self.folder / one.method}: cannot be written ({error})"
                raise RunError(said) from error
            self._open[one.method] = writer

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._open.popitem()[1].close()

    def _begin(self, one: Tracked) -> Any:
        from torch.utils.tensorboard import SummaryWriter, summary

        folder = self.folder / one.method
        for file in folder.glob(f"events.out.tfevents.*{_SUFFIX}"):
            file.unlink()
        self._last = {key: last for key, last in self._last.items() if key[0] != one.method}
        # purge_step: a viewer that is open forgets what it read from the file before.
        writer: Any = SummaryWriter(str(folder), purge_step=0, filename_suffix=_SUFFIX)
        # Not add_hparams, which writes the metric once more, in a run of its own.
        hparams: Any = summary.hparams
        for part in hparams(dict(one.settings), {_REACHED: None}):
            writer.file_writer.add_summary(part)
        return writer

    def _add(self, writer: Any, one: Tracked) -> None:
        for series in one.series:
            key = one.method, series.name
            for round, value in zip(series.rounds, series.values, strict=True):
                if round > self._last.get(key, 0):
                    writer.add_scalar(series.name, value, round, walltime=one.times[round])
                    self._last[key] = round
