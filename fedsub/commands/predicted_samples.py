"""What a model says of samples, as JSON, CSV and npz: classes, or values of a target."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedsub_core.data.target import Target


@dataclass(frozen=True, eq=False)
class Classes:
    """The probabilities [n, classes] of samples."""

    probabilities: NDArray[np.float32]
    classes: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        """Return the likeliest class of each sample, and all probabilities."""
        each = zip(self.probabilities.argmax(1), self.probabilities, strict=True)
        found = [{"class": self.classes[i], "probabilities": p.tolist()} for i, p in each]
        return {"classes": self.classes, "predictions": found}

    def csv(self) -> str:
        """Return a row for each sample, with its class and probabilities."""
        each = zip(self.probabilities.argmax(1), self.probabilities, strict=True)
        rows = ([row, self.classes[i], *map(str, p)] for row, (i, p) in enumerate(each))
        # A class may be called "row" or "class", so the columns of classes say what they are.
        return _csv(["row", "class", *(f"probability {name}" for name in self.classes)], rows)

    def npz(self) -> bytes:
        """Return probabilities, labels and names as arrays of a file."""
        import numpy as np

        label = self.probabilities.argmax(1).astype(np.int64)
        return _npz(probabilities=self.probabilities, label=label, classes=np.array(self.classes))


@dataclass(frozen=True, eq=False)
class Values:
    """The values [n] of a target that samples are predicted to have, in its unit."""

    values: NDArray[np.float32]
    target: Target

    def json(self) -> dict[str, Any]:
        """Return the target, and the value of each sample."""
        found = [{"value": float(value)} for value in self.values]
        return {"target": self.target.name, "unit": self.target.unit, "predictions": found}

    def csv(self) -> str:
        """Return a row for each sample, with its value."""
        return _csv(["row", self.target.name], enumerate(map(str, self.values)))

    def npz(self) -> bytes:
        """Return the values and the target's name as arrays of a file."""
        import numpy as np

        return _npz(values=self.values, target=np.array(self.target.name))


Answers = Classes | Values


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def _npz(**arrays: Any) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
