"""SVHN's MATLAB files and USPS' lines, rebuilt from real pictures and digits of their sizes."""

import bz2
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Prepared
from fedsub_papers.preparing.pictures import svhn, usps
from fedsub_papers.tests.official_files import pictures


def read(module: Any, source: Path) -> Prepared:
    made: Prepared = module.prepare(source, NothingToChoose(), 1, lambda done, total: None)
    return made


def refusal(module: Any, source: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(module, source)
    return str(caught.value)


@pytest.fixture
def matlab(tmp_path: Path, real_data: Path) -> Path:
    """Thirty pictures to train on and twenty to test."""
    x, y = pictures.photographs(real_data, 50)
    return pictures.svhn(tmp_path, (x[:30], y[:30]), (x[30:], y[30:]))


def test_svhn_is_read(matlab: Path, real_data: Path) -> None:
    made = read(svhn, matlab)
    assert dict(made.counts) == {"pictures: train": 30, "pictures: test": 20}
    x, y = pictures.photographs(real_data, 50)
    for name, rows in (("train", slice(0, 30)), ("test", slice(30, 50))):
        data = made.federation.clients[name]
        assert (data.x == x[rows]).all() and (data.y == y[rows]).all()


ONE = np.ones((30, 1), np.uint8)
PICTURES = np.zeros((32, 32, 3, 30), np.uint8)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (PICTURES, 11 * ONE, "got class 11 of picture 0, expected 1 to 10"),
        (PICTURES, 0 * ONE, "got class 0 of picture 0"),
        (PICTURES, ONE[:29], r"got X \(32, 32, 3, 30\) and y \(29, 1\)"),
        (PICTURES[:31], ONE, r"got X \(31, 32, 3, 30\)"),
        (PICTURES.astype(float), ONE, "got X double"),
        (PICTURES, ONE.astype(object), "got y cell"),
    ],
)
def test_other_shapes_types_and_labels_are_refused(
    matlab: Path, x: NDArray[Any], y: NDArray[Any], said: str
) -> None:
    pictures.matlab(matlab / "train_32x32.mat", x, y)
    message = refusal(svhn, matlab)
    assert "train_32x32.mat" in message and re.search(said, message), message


def test_damaged_and_missing_matlab_files(matlab: Path) -> None:
    path = matlab / "test_32x32.mat"
    whole = path.read_bytes()
    for body in (b"", b"<html>", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(body)
        assert "test_32x32.mat: got" in refusal(svhn, matlab)
    path.unlink()
    assert "no test_32x32.mat in it" in refusal(svhn, matlab)


@pytest.fixture
def lines(tmp_path: Path, real_data: Path) -> tuple[Path, NDArray[np.uint8], NDArray[np.int64]]:
    """Real digits of MNIST made 16 x 16, as LIBSVM writes USPS: 20 to train on, 10 to test."""
    large, y = pictures.digits(real_data, 30)
    x = pictures.made_smaller(large, 16)
    return pictures.usps(tmp_path, (x[:20], y[:20]), (x[20:], y[20:])), x, y


Lines = tuple[Path, NDArray[np.uint8], NDArray[np.int64]]


def test_usps_is_read_to_the_byte(lines: Lines) -> None:
    folder, x, y = lines
    made = read(usps, folder)
    assert dict(made.counts) == {"pictures: train": 20, "pictures: test": 10}
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 30))):
        data = made.federation.clients[name]
        assert (data.x[:, 0] == x[rows]).all() and (data.y == y[rows]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: "11" + text[text.index(" ") :], "line 1: got class '11', expected 1 to 10"),
        (lambda text: "0" + text[text.index(" ") :], "line 1: got class '0'"),
        (lambda text: text.replace(" 256:", " 257:", 1), "line 1: got 256 values, expected 1:v"),
        (lambda text: text.replace(" 7:-1", " 7:x", 1), "line 1: got a value that is no number"),
        (lambda text: text.replace(" 7:-1", " 7", 1), "line 1: got a value that is no number"),
        (lambda text: text.replace(" 7:-1", " 7:nan", 1), "line 1: got a value beyond 1"),
        (lambda text: text.replace(" 7:-1", " 7:-1.5", 1), "line 1: got a value beyond 1"),
        (lambda text: text[:900], "line 1: got .* values"),
        (lambda text: "", "got no line, expected a digit on each"),
    ],
)
def test_faults_of_usps_are_named_by_line(
    lines: Lines, change: Callable[[str], str], said: str
) -> None:
    path = lines[0] / "usps.bz2"
    text = bz2.decompress(path.read_bytes()).decode()
    path.write_bytes(bz2.compress(change(text).encode()))
    message = refusal(usps, lines[0])
    assert "usps.bz2" in message and re.search(said, message), message


def test_truncated_and_missing_files_of_usps(lines: Lines) -> None:
    path = lines[0] / "usps.t.bz2"
    path.write_bytes(path.read_bytes()[:-20])
    assert "usps.t.bz2: got EOFError" in refusal(usps, lines[0])
    path.unlink()
    assert "expected a folder with usps.bz2 and usps.t.bz2" in refusal(usps, lines[0])
