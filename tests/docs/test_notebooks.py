"""The notebooks: committed without outputs, and what their cells do, one after another."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_are_kept_without_what_they_print(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 2 and set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
@pytest.mark.release
def test_from_a_csv_to_probabilities_of_a_personal_onnx_model(tmp_path: Path) -> None:
    read: Any = nbformat.read  # which has no types
    notebook = read(FOLDER / "csv-to-phone.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert (tmp_path / "03.onnx").is_file()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    shown = {kind: [one["data"].get(kind, "") for one in outputs if "data" in one]
             for kind in ("text/plain", "text/html")}  # fmt: skip
    (told,) = (text for text in shown["text/plain"] if " of 15 rounds" in text)
    assert "fedsub-ridge: 15 of 15 rounds, after" in told and "local: 15 of 15" in told
    assert any(".report</code> shows the report here" in text for text in shown["text/html"])
    assert any("<iframe srcdoc=" in text for text in shown["text/html"])
    first, again = (text for text in shown["text/plain"] if "ABD" in text and "user" not in text)
    assert first == again, "ONNX Runtime says what the model said"
