"""MNIST's official files, rebuilt from real digits: read, and refused where something is off."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparers import prepare
from fedsub_papers.tests.official_files.pictures import idx, mnist

TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def refusal(source: Path) -> str:
    out = source.parent / "out"
    with pytest.raises(DataError) as caught:
        prepare("mnist", source, out, NothingToChoose(), 1, lambda done, total: None)
    assert not out.exists()
    return str(caught.value)


def test_mnist_is_read_and_its_parts_are_the_clients(tmp_path: Path, real_data: Path) -> None:
    source, out = mnist(tmp_path / "m", real_data), tmp_path / "out"
    made = prepare("mnist", source, out, NothingToChoose(), 1, lambda done, total: None)
    assert dict(made.counts) == {"pictures: train": 60, "pictures: test": 40}
    back = read_federation(out)
    assert back.card.sample == "image" and back.card.features == ("grey",)
    with np.load(real_data / "images/mnist20k.npz") as file:
        x, y, train = file["x"], file["y"], file["train"]
    for name, rows in (
        ("train", np.flatnonzero(train)[:60]),
        ("test", np.flatnonzero(~train)[:40]),
    ):
        client = back.clients[name]
        assert client.x.dtype == np.uint8 and client.x.shape[1:] == (1, 28, 28)
        assert (client.x[:, 0] == x[rows]).all() and (client.y == y[rows]).all()


def test_unpacked_files_and_dots_in_their_names(tmp_path: Path, real_data: Path) -> None:
    source = mnist(tmp_path / "m", real_data)
    for path in sorted(source.iterdir()):
        name = path.name.removesuffix(".gz").replace("-idx", ".idx")
        (source / name).write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    out = tmp_path / "out"
    made = prepare("mnist", source, out, NothingToChoose(), 1, lambda done, total: None)
    assert dict(made.counts)["pictures: train"] == 60


def shorter(body: bytes) -> bytes:
    return gzip.compress(gzip.decompress(body)[:-1])


def longer(body: bytes) -> bytes:
    return gzip.compress(gzip.decompress(body) + b"\0")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (TRAIN_IMAGES, lambda body: body[: len(body) // 2], "EOFError.*fetch it again"),
        (TRAIN_IMAGES, shorter, "got 47039 bytes; it is truncated, expected 47040"),
        (TRAIN_LABELS, longer, "got more bytes, expected 60"),
        (TRAIN_LABELS, lambda body: gzip.compress(b""), "begins with nothing, expected 00 00 08"),
        (TRAIN_LABELS, lambda body: b"<html>", "BadGzipFile"),
        (TRAIN_IMAGES, lambda body: gzip.compress(idx(np.zeros(9, np.uint8))), "00 00 08 01"),
        (
            TRAIN_IMAGES,
            lambda body: gzip.compress(b"\0\0\x08\x03" + b"\xff" * 12),
            r"got a shape \(4294967295, .*expected 1 to",
        ),
        (
            TRAIN_LABELS,
            lambda body: gzip.compress(idx(np.arange(60, dtype=np.uint8) % 11)),
            "got label 10 of picture 10, expected 0 to 9",
        ),
        (
            TRAIN_LABELS,
            lambda body: gzip.compress(idx(np.zeros(59, np.uint8))),
            "got 59 labels, expected 60",
        ),
    ],
)
def test_what_is_off_is_refused_by_its_file(
    tmp_path: Path, real_data: Path, name: str, change: Callable[[bytes], bytes], said: str
) -> None:
    source = mnist(tmp_path / "m", real_data)
    path = source / name
    path.write_bytes(change(path.read_bytes()))
    message = refusal(source)
    assert name in message
    assert re.search(said, message), message


def test_a_missing_file_is_named(tmp_path: Path, real_data: Path) -> None:
    source = mnist(tmp_path / "m", real_data)
    (source / "t10k-labels-idx1-ubyte.gz").unlink()
    assert "t10k-labels-idx1-ubyte.gz" in refusal(source)


def test_parts_of_several_sizes_are_refused(tmp_path: Path, real_data: Path) -> None:
    source = mnist(tmp_path / "m", real_data)
    small = idx(np.zeros((40, 14, 28), np.uint8))
    (source / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(small))
    assert "got pictures of (1, 14, 28), expected (1, 28, 28)" in refusal(source)
