"""Parts that a column or a file says: kept by sample, no window in two, refused where wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.parts import with_parts
from tests.fedsub_data.importing.made_tables import imported, written

RATE = 10


def rows(words: tuple[str, ...] = ("train", "Test", "val", "")) -> list[str]:
    """Return 10 s for each word, of two people and two classes in turn."""
    lines = ["who,time,act,part,ax,ay"]
    for who in ("anna", "ben"):
        for i in range(len(words) * 10 * RATE):
            word, label = words[i // (10 * RATE)], ("sit", "walk")[i // (5 * RATE) % 2]
            lines.append(f"{who},{i / RATE},{label},{word},{np.sin(i):.4f},{np.cos(i / 3):.4f}")
    return lines


COLUMNS: dict[str, Any] = {"subject": "who", "label": "act", "part": "part"}


def test_each_window_has_the_part_of_its_rows(tmp_path: Path) -> None:
    written(tmp_path / "rows.csv", rows())
    made = imported(tmp_path / "rows.csv", tmp_path / "made", **COLUMNS)
    assert any("split = given" in note for note in made.notes)
    for data in read_federation(tmp_path / "made").clients.values():
        assert data.t is not None and data.parts is not None
        np.testing.assert_array_equal(data.parts, (data.t // 10).astype(np.int64))
        assert ((data.t % 10) <= 8).all(), "a window spans two parts"
        assert set(data.parts) == {0, 1, 2, 3}


def test_each_row_that_is_a_sample_has_its_part(tmp_path: Path) -> None:
    written(tmp_path / "rows.csv", rows())
    rowwise = COLUMNS | {"window": "none", "time": "none", "features": "ax,ay"}
    imported(tmp_path / "rows.csv", tmp_path / "made", **rowwise)
    for data in read_federation(tmp_path / "made").clients.values():
        assert data.parts is not None
        np.testing.assert_array_equal(data.parts, np.arange(400) // 100)


@pytest.mark.parametrize(
    ("words", "got"), [(("train", "train"), "'train'"), (("train", "tset"), "'tset'")]
)
def test_a_column_of_one_value_or_another_word_is_refused(
    tmp_path: Path, words: tuple[str, ...], got: str
) -> None:
    written(tmp_path / "rows.csv", rows(words))
    with refused(DataError, "part", "column") as error:
        imported(tmp_path / "rows.csv", tmp_path / "made", **COLUMNS)
    assert got in str(error.value)
    assert not (tmp_path / "made").exists()


def test_parts_of_arrays_are_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 2, 8)).astype(np.float32)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(20) % 2)
    with refused(ConfigError, "part", "fedsub data parts"):
        imported(tmp_path / "*.npz", tmp_path / "made", part="part")


def test_a_file_says_the_part_of_each_sample(tmp_path: Path) -> None:
    table, federation = tmp_path / "splits.csv", people(samples=10)
    lines = ["person,index,part"]
    lines += [f"{name},{i},{'test' if i > 6 else 'training'}" for name in federation.clients
              for i in range(9)]  # fmt: skip
    table.write_text("\n".join(lines))
    for data in with_parts(federation, table).clients.values():
        assert data.parts is not None
        assert data.parts[:9].tolist() == [0] * 7 + [1] * 2 and set(data.parts[9:]) == {3}
    first = next(iter(federation.clients))
    wrong = {f"{first},3,test": "'3'", "nobody,1,test": "'nobody'"}
    wrong |= {f"{first},9999,test": "'9999'", f"{first},9,later": "'later'"}
    for line, got in wrong.items():
        table.write_text("\n".join([*lines, line]))
        with refused(DataError, f"line {len(lines) + 1}") as error:
            with_parts(federation, table)
        assert got in str(error.value)
    table.write_text("\n".join(line.replace("test", "training") for line in lines))
    with refused(DataError, first, "training"):
        with_parts(federation, table)
    table.write_text("person,part\n")
    with refused(DataError, "index"):
        with_parts(federation, table)


def test_the_command_writes_a_federation_that_runs_go_by(tmp_path: Path) -> None:
    federation = people(samples=10)
    write_federation(tmp_path / "people", federation)
    lines = [f"{name},{i},{'test' if i % 3 else 'train'}" for name in federation.clients
             for i in range(10)]  # fmt: skip
    (tmp_path / "parts.csv").write_text("\n".join(["person,index,part", *lines]))
    out = tmp_path / "made"
    call = ["data", "parts", str(tmp_path / "people"), "--file", str(tmp_path / "parts.csv")]
    assert CliRunner().invoke(cli, [*call, "--out", str(out)]).exit_code == 0
    for data in read_federation(out).clients.values():
        assert data.parts is not None and (data.parts[:10] == [0, 1, 1] * 3 + [0]).all()
