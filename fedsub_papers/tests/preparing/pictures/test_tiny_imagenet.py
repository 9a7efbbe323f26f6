"""TinyImageNet's zip, rebuilt from real pictures of its size."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import Prepared
from fedsub_papers.preparing.options import TinyImageNetOptions
from fedsub_papers.preparing.pictures.tiny_imagenet import prepare
from fedsub_papers.tests.official_files.pictures import styles, tiny_imagenet, tiny_imagenet_zip

IDS = ("n02099601", "n01443537", "n04067472")


@pytest.fixture(scope="module")
def files(real_data: Path) -> dict[str, bytes]:
    """Twelve training and two validation pictures of three classes, and the lists."""
    pictures = list(styles(real_data, 2, 14).values())
    words = "n01443537\tgoldfish, Carassius auratus\nn02099601\tgolden retriever\nn04067472\treel\n"
    return tiny_imagenet(IDS, words, [p[:12] for p in pictures], [p[12:] for p in pictures])


def made(source: Path, per_class: int = 0) -> Prepared:
    return prepare(source, TinyImageNetOptions(per_class), 1, lambda done, total: None)


def test_train_and_val_are_the_clients(tmp_path: Path, files: dict[str, bytes]) -> None:
    result = made(tiny_imagenet_zip(tmp_path / "t.zip", files))
    assert dict(result.counts) == {"pictures: train": 36, "pictures: val": 6}
    card = result.federation.card
    assert card.classes == ("n02099601 golden retriever", "n01443537 goldfish", "n04067472 reel")
    assert result.federation.clients["val"].y.tolist() == [0, 1, 2, 0, 1, 2]
    assert result.federation.clients["train"].x.shape == (36, 3, 64, 64)


def test_the_first_of_each_class_by_their_numbers(tmp_path: Path, files: dict[str, bytes]) -> None:
    source = tiny_imagenet_zip(tmp_path / "t.zip", files)
    few, all_of_them = made(source, 11).federation, made(source).federation
    assert few.clients["train"].y.tolist() == sorted([0, 1, 2] * 11, key=lambda y: IDS[y])
    # 9 stands before 10: the last of twelve, 11, is left out.
    assert (few.clients["train"].x[:11] == all_of_them.clients["train"].x[:11]).all()


def test_the_unpacked_folder(tmp_path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(tiny_imagenet_zip(tmp_path / "t.zip", files)) as archive:
        archive.extractall(tmp_path / "a")
    unpacked, packed = made(tmp_path / "a").federation, made(tmp_path / "t.zip").federation
    for name, data in unpacked.clients.items():
        assert (data.x == packed.clients[name].x).all()


CHANGES: list[tuple[str, Callable[[bytes], bytes | None], str]] = [
    ("wnids.txt", lambda body: None, "got 0 files wnids.txt"),
    ("wnids.txt", lambda body: body + body, "got 6 ids, expected two or more, none twice"),
    ("wnids.txt", lambda body: body[10:], "train/n02099601: got a folder 'n02099601', expected"),
    ("words.txt", lambda body: b"n02099601 dog\n", "words.txt: got a line of 1 fields, expected 2"),
    ("words.txt", lambda body: b"\xff\n", "words.txt, line 1: got byte 0xff"),
    ("val/val_annotations.txt", lambda body: body.replace(b"n0", b"n9"), "line 1: got class 'n920"),
    ("val/val_annotations.txt", lambda body: body[40:], "a (line of|picture without a label)"),
    ("val/images/val_0.JPEG", lambda body: body[:400], "val_0.JPEG: got OSError"),
    ("train/n01443537/images/n01443537_3.JPEG", lambda body: b"", "n01443537_3.JPEG: got Unident"),
]


@pytest.mark.parametrize(("name", "change", "said"), CHANGES)
def test_faults_are_named(
    tmp_path: Path,
    files: dict[str, bytes],
    name: str,
    change: Callable[[bytes], bytes | None],
    said: str,
) -> None:
    changed = change(files[name])
    kept = {key: body for key, body in files.items() if key != name}
    if changed is not None:
        kept[name] = changed
    with pytest.raises(DataError, match=said):
        made(tiny_imagenet_zip(tmp_path / "t.zip", kept))


def test_a_truncated_zip_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = tiny_imagenet_zip(tmp_path / "t.zip", files)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"t\.zip: cannot be read"):
        made(path)
