"""People's names as ids: nobody's name is lost, and no two people become one."""

from pathlib import Path

import numpy as np
import pytest

from fedsub_core.errors import DataError
from fedsub_core.identifiers import is_client_id
from fedsub_data.importing.client_ids import client_ids
from fedsub_data.importing.importing import write_client


@pytest.mark.parametrize(
    "names", [("a b", "a-b"), ("Ann/1", "Ann 1"), ("x" * 64 + "1", "x" * 64 + "2"), ("_a", "p_a")]
)
def test_two_people_never_become_one(names: tuple[str, str]) -> None:
    with pytest.raises(DataError) as refused:
        client_ids(names)
    assert all(repr(name) in str(refused.value) for name in names)


def test_a_number_is_one_person_however_a_table_kept_it() -> None:
    found, said = client_ids(["1", "1.0", "01"])
    assert found == {"1": "1", "1.0": "1", "01": "01"}
    assert said == []


@pytest.mark.parametrize("name", ["Zoé Müller", "#7", "-", "x" * 100])
def test_every_name_has_an_id_and_that_is_said(name: str) -> None:
    found, said = client_ids([name])
    assert is_client_id(found[name])
    assert len(said) == 1 and repr(found[name]) in said[0]


def test_nobodys_file_is_overwritten_by_another_of_that_name(tmp_path: Path) -> None:
    """As of `anna` and `Anna` on a disk that ignores case."""
    arrays = {"x": np.zeros((2, 1), np.float32), "y": np.arange(2)}
    write_client(tmp_path, "anna", arrays)
    before = (tmp_path / "clients" / "anna.npz").read_bytes()
    with pytest.raises(FileExistsError, match=r"anna\.npz"):
        write_client(tmp_path, "anna", {"x": np.ones((3, 1), np.float32), "y": np.arange(3)})
    assert (tmp_path / "clients" / "anna.npz").read_bytes() == before
