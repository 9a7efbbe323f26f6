"""Files of new samples: read, or refused with a clear error."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from fedsub_client.new_samples import read_samples
from fedsub_core.errors import DataError


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "new.npz"
    pickled, single = io.BytesIO(), io.BytesIO()
    np.savez(pickled, x=np.array([{}], object))
    np.save(single, np.ones((5, 2)))
    with pytest.raises(DataError, match=r"new\.npz: no such file; expected an npz with x"):
        read_samples(file)
    for data in (b"", b"PK\x03\x04 no zip", pickled.getvalue()[:60], pickled.getvalue()):
        file.write_bytes(data)
        with pytest.raises(DataError, match=r"new\.npz: cannot be read as npz .*savez\(path, x=x"):
            read_samples(file)
    file.write_bytes(single.getvalue())
    with pytest.raises(DataError, match="it is no npz file"):
        read_samples(file)
    np.savez(file, z=np.ones((5, 2)))
    with pytest.raises(DataError, match=r"new\.npz: got arrays \['z'\], expected x"):
        read_samples(file)
    np.savez(file, x=np.ones((5, 2)), y=np.zeros(5))
    assert {name: x.shape for name, x in read_samples(file).items()} == {"x": (5, 2)}
