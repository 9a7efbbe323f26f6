"""A bundle: a model, its card, and a program of NumPy alone that answers for a recording."""

import io
import json
import tempfile
import zipfile
from pathlib import Path

from fedsub.export.formats import export
from fedsub.recordings.answers import model_cut
from fedsub.recordings.table import VALUE
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import check_new, whole_folder, write_whole
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import TIMES

PROGRAM, CARD = "answer.py", "card.json"
#: The model's file by format, and how the program loads and runs another one than ONNX.
_MODELS = {"onnx": "model.onnx", "torchscript": "model.pt"}
_TORCH = (
    ("onnxruntime", "torch"),
    ("ONNX Runtime", "PyTorch"),
    ("torch.InferenceSession", "torch.jit.load"),
    ("model.onnx", "model.pt"),
    ('model.run(None, {"x": x})[0]', "model(torch.from_numpy(x)).detach().numpy()"),
)


def write_bundle(
    model: PersonalModel, format: str, path: Path, force: bool = False
) -> float | None:
    """Write a bundle as a new folder, or as one file where `path` ends in ``.zip``.

    ``python answer.py day.csv`` then prints what ``fedsub predict`` does of a recording in the
    model's units: each window's start and end, s, its class and probabilities, or its value.

    Returns
    -------
    float or None
        Largest difference between the file's probabilities and the model's, as
        :func:`~fedsub.export.formats.export` does.

    Raises ConfigError where the format holds no program of its own, or the model sees no windows.
    Raises RunError where `path` is taken or cannot be written.
    """
    if format not in _MODELS:
        raise ConfigError(f"bundle: got format {format!r}, expected {' or '.join(_MODELS)}")
    cut = model_cut(model, ImportOptions())
    program = Path(__file__).with_name(PROGRAM).read_text("utf-8")
    for word, other in _TORCH if format == "torchscript" else ():
        program = program.replace(word, other)
    names = model.card.classes if model.card.target is None else ()
    said = ["class", *(f"probability {name}" for name in names)] if names else [VALUE]
    card = {
        "client": model.client,
        "method": model.method,
        "round": model.round,
        "classes": names,
        "columns": ["start", "end", *said],
        "features": model.card.features,
        "units": model.card.units,
        "rate_hz": cut.rate,
        "window_rows": cut.length,
        "step_rows": cut.step,
        "times": TIMES,
    }

    def fill(folder: Path) -> float | None:
        (folder / CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (folder / PROGRAM).write_text(program, "utf-8")
        return export(model, format, folder / _MODELS[format])

    if path.suffix != ".zip":
        with whole_folder(path, RunError) as draft:
            return fill(draft)
    check_new(path, force)
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w") as bundle:
        difference = fill(Path(folder))
        for file in sorted(Path(folder).iterdir()):
            bundle.write(file, file.name, zipfile.ZIP_DEFLATED)
    write_whole(path, packed.getvalue())
    return difference
