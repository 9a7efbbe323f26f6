"""docs/your-data.md: its lines, as they stand there, from a table to a person's model."""

import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import fedsub
from fedsub_core.options import describe
from fedsub_data.importing.options import ImportOptions

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "your-data.md").read_text("utf-8")


def test_options_that_the_page_names_exist() -> None:
    known = {f"--{option.key}" for option in describe(ImportOptions)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    others = {"--data", "--input", "--no-inspect", "--resume", "--split"}
    assert named - known <= others | {"--out", "--into", "--new-classes"}
    assert {"--missing", "--backwards", "--window"} <= named


def write_table(folder: Path, path: Path) -> None:
    """Write windows of three people as one signal each, as a logger would have kept them."""
    federation = fedsub.federation(folder)
    with path.open("w", encoding="utf-8") as file:
        file.write("user,activity,timestamp,acc_x,acc_y,acc_z\n")
        for person in list(federation.clients)[:3]:
            data = federation.clients[person]
            signal = data.x[:60].transpose(0, 2, 1).reshape(-1, 3)
            names = [federation.card.classes[label] for label in data.y[:60]]
            for i, (x, y, z) in enumerate(signal.tolist()):
                file.write(f"{person},{names[i // 128]},{i / 20:.2f},{x:.3f},{y:.3f},{z:.3f}\n")


@pytest.mark.slow
def test_from_a_table_to_a_personal_onnx_model(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(real_data / "wisdm-windows", tmp_path / "walks.csv")
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "your-data.md", "exec"), names)
    run, people = names["run"], names["people"]
    assert isinstance(run, fedsub.Run)
    assert run.table.loc["fedsub-ridge", "macro_f1"] > 0.5
    x = people.clients["01"].x  # type: ignore[attr-defined]
    session = onnxruntime.InferenceSession(tmp_path / "01.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})
    np.testing.assert_allclose(found, run.model("01")(x), atol=1e-4)
