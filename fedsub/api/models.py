"""A person's model as it is used from Python: raw samples in, probabilities out."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub.api.data import even
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import DataError
from fedsub_core.pytorch import nn
from fedsub_core.spelling import python, spelling


class PersonModel:
    """A person's model; standardisation and encoder are inside.

    ``model(x)`` gives probabilities [n, classes] of raw samples, ``model.predict(x)`` names of
    classes. Samples are in the units of the training data, [n, features] or [n, channels, time];
    a DataFrame gives its columns by their names.
    """

    def __init__(self, model: PersonalModel) -> None:
        self._model = model

    @property
    def person(self) -> str:
        """Whose model it is."""
        return self._model.client

    @property
    def method(self) -> str:
        """By which method it was trained."""
        return self._model.method

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self._model.card.classes

    @property
    def features(self) -> tuple[str, ...]:
        """Names of a sample's features or channels."""
        return self._model.card.features

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self._model.shape)

    def __call__(self, x: Any, edges: Any = None) -> NDArray[np.float32]:
        """Return the probability of every class, [n, classes]; each row sums to 1.

        Of a target these are its values [n], in the card's unit. Of a graph's nodes `edges` [2, m]
        are pairs of rows of `x`.

        Raises
        ------
        DataError
            Where `x` does not fit: shape, type, columns, or values far from all training data.
        """
        joined = None if edges is None else np.asarray(edges)
        found = self._model.probabilities(self._samples(x), edges=joined)
        return found if self._model.card.target is None else found[:, 0]

    #: scikit-learn's name for a call.
    predict_proba = __call__

    @property
    def module(self) -> nn.Module:
        """A ``torch.nn.Module`` from standardised samples, or features of its encoder, to logits.

        Its parameters are copies. Raises ConfigError where PyTorch is not installed.
        """
        return self._model.predictor.to_torch(self._model.params)

    def predict(self, x: Any, edges: Any = None) -> NDArray[Any]:
        """Return the most probable class of each sample, names [n]; raises as a call.

        Of a target these are its values, as a call's.
        """
        found = self(x, edges)
        if found.ndim == 1:
            return found
        names: NDArray[np.str_] = np.array(self.classes)[found.argmax(axis=1)]
        return names

    @spelling(python)
    def predict_recording(
        self,
        recording: Any,
        unknown_below: float = 0.0,
        smooth: str = "",
        row_rate: float | None = None,
        **reading: Any,
    ) -> Any:
        """Return a DataFrame with the answer for each window of a recording.

        Its columns are ``recording``, ``start``, ``end``, ``class``, ``probability`` and
        ``probability NAME`` of each class; ``attrs["notes"]`` says how the recording was read, and
        ``attrs["minutes"]`` how many minutes each class lasted. Of a target there is ``value``
        in the place of classes.

        Parameters
        ----------
        recording : a DataFrame with a column for each channel; or a file of CSV, TSV or Parquet, a
            folder or a pattern, or a list of such.
        unknown_below : a window whose class is less probable is ``unknown``.
        smooth : how long a class lasts on average, such as ``10s``, by which answers are smoothed;
            ``training``: as long as in the training samples; empty: they are not.
        row_rate : rows a second of a recording without times; None: the model's rate.
        reading : options of :class:`~fedsub_data.importing.options.ImportOptions` on times, units
            and text, such as ``time="t"``, ``convert="m/s^2"`` or ``gap="1s"``.

        Raises
        ------
        ConfigError, DataError
            Where an option is unknown, the model sees no windows, a channel is missing, or the
            recording is shorter than a window.
        """
        from fedsub.recordings.answers import Asked, predict_recordings
        from fedsub.recordings.reading import reading_options, smoothing_seconds
        from fedsub.recordings.table import answers_table

        asked = Asked(unknown_below, smoothing_seconds(smooth, self._model), row_rate)
        options = reading_options({key.replace("_", "-"): str(v) for key, v in reading.items()})
        answered, notes = predict_recordings(self._model, recording, options, asked)
        return answers_table(answered, self._model.card, notes)

    @spelling(python)
    def export(
        self,
        path: Path | str,
        format: str | None = None,
        force: bool = False,
        bundle: bool = False,
    ) -> Path:
        """Write the model as one file that needs nothing of FedSub; return its path.

        Parameters
        ----------
        format : ``onnx``, ``torchscript`` or ``safetensors``; None: by the path's ending,
            ``.onnx``, ``.pt`` or ``.safetensors``.
        force : whether a file that is there is replaced.
        bundle : whether a new folder, or a .zip, is written with the model, its card, and a program
            of NumPy that answers for a recording; by default with ``onnx``.

        Raises
        ------
        ConfigError, RunError
            Where the format is unknown, its packages are missing, or the file does not compute what
            the model does.
        """
        from fedsub.export.formats import export

        path = Path(path)
        if bundle:
            from fedsub.export.bundle import write_bundle

            write_bundle(self._model, format or "onnx", path, force)
            return path
        kind = format or {".pt": "torchscript"}.get(path.suffix, path.suffix.lstrip("."))
        export(self._model, kind, path, force)
        return path

    def _samples(self, x: Any) -> NDArray[Any]:
        if not hasattr(x, "columns"):
            return even(x, "x")
        if lacking := [name for name in self.features if name not in x.columns]:
            raise DataError(
                f"x: got columns {', '.join(map(str, x.columns))}, expected {', '.join(lacking)}, "
                "too, which the model was trained on"
            )
        values: NDArray[Any] = x[list(self.features)].to_numpy(np.float32)
        return values

    def __repr__(self) -> str:
        """Return whose it is, how it was trained, and what it tells apart."""
        return (
            f"PersonModel(person={self.person!r}, method={self.method!r}, shape={self.shape}, "
            f"classes={self.classes})"
        )
