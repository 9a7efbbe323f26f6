"""AG News' CSV, rebuilt from its real test rows: token ids come out, faults are named by line."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import Prepared
from fedsub_data.preparing.preparers import prepare
from fedsub_papers.preparing.options import AGNewsOptions
from fedsub_papers.preparing.texts.hashed_words import token_ids, words_of
from fedsub_papers.tests.official_files.texts import Rows, ag_news, news


@pytest.fixture(scope="module")
def rows(real_data: Path) -> Rows:
    return news(real_data)[:300]


def written(folder: Path, rows: Rows) -> Path:
    """Write the two official files: the first two thirds of the rows, and the rest."""
    return ag_news(folder, rows[:200], rows[200:])


def made_of(source: Path, out: Path, options: AGNewsOptions | None = None) -> Prepared:
    done = (1, lambda done, total: None)
    return prepare("ag-news", source, out, options or AGNewsOptions(), *done)


def refusal(source: Path) -> str:
    out = source.with_name("out")
    with pytest.raises(DataError) as caught:
        made_of(source, out)
    assert not out.exists()
    return str(caught.value)


def test_real_news_become_ids(tmp_path: Path, rows: Rows) -> None:
    made = made_of(written(tmp_path / "ag", rows), tmp_path / "out")
    assert made.counts["texts: train"] == 200 and made.counts["texts: test"] == 100
    back = read_federation(tmp_path / "out")
    assert (back.card.vocabulary, back.card.padding) == (16_384, 0)
    test = back.clients["test"]
    assert test.y.tolist() == [int(row[0]) - 1 for row in rows[200:]]
    first = token_ids(words_of(f"{rows[200][1]} {rows[200][2]}"), 128, 8192, 8191)
    assert test.x.dtype == np.int32 and (test.x[0] == first).all()


def test_one_file_alone_words_alone_and_texts_that_are_cut(tmp_path: Path, rows: Rows) -> None:
    source = written(tmp_path / "ag", rows) / "test.csv"
    made = made_of(source, tmp_path / "out", AGNewsOptions(length=16, words=4096, bigrams=0))
    assert list(made.federation.clients) == ["test"]
    assert made.federation.card.vocabulary == 4097
    long = sum(len(words_of(f"{row[1]} {row[2]}")) > 16 for row in rows[200:])
    assert made.counts["texts cut to their first words"] == long > 50


def test_a_zip_is_read(tmp_path: Path, rows: Rows) -> None:
    folder = written(tmp_path / "ag", rows)
    with zipfile.ZipFile(tmp_path / "ag.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"ag_news_csv/{path.name}")
    made, same = made_of(tmp_path / "ag.zip", tmp_path / "1"), made_of(folder, tmp_path / "2")
    for name in ("train", "test"):
        ours, other = (one.federation.clients[name].x for one in (made, same))
        assert (ours == other).all()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b'"1"," ","... -- !"\n', "line 3: got a text without a word"),
        (b'"1","",""\n', "line 3: got a text without a word"),
        (b'"5","Title","Said"\n', "line 3: got class '5', expected 1 to 4"),
        (b'"0","Title","Said"\n', "line 3: got class '0'"),
        (b'"World","Title","Said"\n', "line 3: got class 'World'"),
        (b'"1","Title"\n', "line 3: got 2 fields, expected 3"),
        (b"\n", "line 3: got 0 fields"),
        (b'"1","Ti\xfftle","Said"\n', "line 3: got byte 0xff, expected text in UTF-8"),
        (b'"1","Title","Said', "line 3: got unexpected end of data, .*is the file whole"),
    ],
)
def test_faults_are_named_by_file_and_line(
    tmp_path: Path, rows: Rows, row: bytes, said: str
) -> None:
    path = written(tmp_path / "ag", rows) / "train.csv"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:2]) + b"\n" + row)
    message = refusal(tmp_path / "ag")
    assert "train.csv" in message and re.search(said, message), message


def test_empty_and_missing_files(tmp_path: Path, rows: Rows) -> None:
    folder = written(tmp_path / "ag", rows)
    (folder / "test.csv").write_bytes(b"")
    assert re.search(r"test\.csv: got no row", refusal(folder))
    (folder / "test.csv").unlink()
    assert "no test.csv in it" in refusal(folder)
