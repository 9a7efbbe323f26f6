"""Files of new samples: read, or refused with a clear error."""

import io
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_client.new_samples import check_distances, read_samples
from fedsub_core.data.card import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import DataError


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "new.npz"
    pickled, single = io.BytesIO(), io.BytesIO()
    np.savez(pickled, x=np.array([{}], object))
    np.save(single, np.ones((5, 2)))
    with refused(DataError, "new.npz", "no such file", expected="npz"):
        read_samples(file)
    for data in (b"", b"PK\x03\x04 no zip", pickled.getvalue()[:60], pickled.getvalue()):
        file.write_bytes(data)
        with refused(DataError, "new.npz", "npz", "savez(path, x=x"):
            read_samples(file)
    file.write_bytes(single.getvalue())
    with pytest.raises(DataError, match="it is no npz file"):
        read_samples(file)
    table = tmp_path / "ward.csv"
    table.write_text("user,activity,ax\na,walk,1\n")
    said = r"ward\.csv: got a \.csv file, expected an \.npz file with x.*`fedsub data import`"
    with pytest.raises(DataError, match=said):
        read_samples(table)
    np.savez(file, z=np.ones((5, 2)))
    with refused(DataError, "new.npz", got="['z']", expected="x"):
        read_samples(file)
    np.savez(file, x=np.ones((5, 2)), y=np.zeros(5))
    assert {name: x.shape for name, x in read_samples(file).items()} == {"x": (5, 2)}


def test_a_nodes_rare_words_are_near_and_wrong_units_are_not() -> None:
    """A word that one node of 2,000 has lies 45 deviations away; one of 5,000, 71."""
    rng = np.random.default_rng(5)
    x = (rng.random((5000, 200)) < 0.05).astype(np.float32)
    x[:, 7] = 0.0
    x[3, 7] = 1.0
    card = Card("papers", "topics", ("a", "b"), tuple(f"w{i}" for i in range(200)), sample="node")
    scaling = Scaling(x.mean(0), x.std(0))
    assert check_distances(x, card, scaling, "new.npz", graph=True) == ""
    assert "1 of 5000 rows (the first is row 3)" in check_distances(x, card, scaling, "new.npz")
    x[4] *= 1000
    said = check_distances(x, card, scaling, "new.npz", graph=True)
    assert "1 of 5000 rows (the first is row 4)" in said
