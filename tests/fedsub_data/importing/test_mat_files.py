"""MATLAB's files: arrays, structures, what is left out, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing import mat_files
from tests.fedsub_data.importing.made_tables import imported


def signal(seed: int) -> dict[str, Any]:
    """Return a recording of 20 s as MATLAB has it: columns, cells of words, a scalar."""
    draw = np.random.default_rng(seed)
    t = np.arange(400) / 20
    states = np.array(["sit"] * 200 + ["walk"] * 200, object)
    acc = draw.normal(0, 1, (400, 3)) * np.where(t < 10, 0.1, 1)[:, None] + [0, 0, 9.8]
    return {"time": t[:, None], "acc": acc, "label": states[:, None], "fs": 20.0}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_signal(tmp_path: Path, nested: bool, packed: bool) -> None:
    (tmp_path / "data").mkdir()
    for number, name in enumerate(("anna", "ben")):
        own = signal(number)
        held = {"rec": own} if nested else own
        savemat(tmp_path / "data" / f"{name}.mat", held, do_compression=packed)
    made = imported(tmp_path / "data", tmp_path / "out")
    federation = read_federation(tmp_path / "out")
    assert federation.card.features == ("acc_x", "acc_y", "acc_z")
    assert federation.card.classes == ("sit", "walk")
    assert federation.card.sampling_rate_hz == 20
    x = federation.clients["ben"].x
    np.testing.assert_allclose(x[0], signal(1)["acc"][:40].T.astype(np.float32))
    assert "Left out of ben.mat: fs = 20.0." in made.notes


def test_windows(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(12, 2, 16))
    who = np.repeat(["a", "b"], 6).astype(object)
    savemat(tmp_path / "w.mat", {"x": x, "y": np.tile([1.0, 2.0], 6), "subject": who})
    imported(tmp_path / "w.mat", tmp_path / "out", window="none")
    federation = read_federation(tmp_path / "out")
    np.testing.assert_allclose(federation.clients["b"].x, x[6:], rtol=1e-6)
    assert federation.card.classes == ("1", "2")


def test_structures_of_several_recordings_are_named(tmp_path: Path) -> None:
    own = signal(0) | {"many": [{"a": 1}, {"a": 2}]}
    (tmp_path / "data").mkdir()
    for name in ("anna", "ben"):
        savemat(tmp_path / "data" / f"{name}.mat", own)
    made = imported(tmp_path / "data", tmp_path / "out")
    assert any("many (neither numbers nor words)" in note for note in made.notes)
    savemat(tmp_path / "only.mat", {"many": [{"a": 1}, {"a": 2}]})
    with refused(DataError, "only.mat", "many", expected="a row for"):
        imported(tmp_path / "only.mat", tmp_path / "other")


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "anna.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512, b" ") + b"\x89HDF\r\n")
    with refused(DataError, "anna.mat", "-v7", got="7.3", expected="version 7 or earlier"):
        imported(path, tmp_path / "out")
    for content in (b"", b"no file of MATLAB", path.read_bytes()[1:600]):
        path.write_bytes(content)
        with refused(DataError, "anna.mat", "writetable"):
            imported(path, tmp_path / "out")
    savemat(path, signal(0))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with refused(DataError, "anna.mat", "writetable"):
        imported(path, tmp_path / "out")
    savemat(path, {"x": np.zeros((5000, 5000))}, do_compression=True)
    with refused(DataError, "anna.mat", got="200,000,000 bytes"):
        imported(path, tmp_path / "out")

    def lacking(what: str, *modules: str) -> None:
        raise ConfigError(f"{what} needs {modules[0]}. Run: pip install 'fedsub[server]'")

    monkeypatch.setattr(mat_files, "require", lacking)
    with refused(ConfigError, "scipy", "pip install"):
        imported(path, tmp_path / "out")
