"""TinyImageNet's zip, rebuilt from real pictures of its size."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub_core.errors import DataError
from fedsub_data.preparing.options import TinyImageNetOptions
from fedsub_data.preparing.pictures.tiny_imagenet import prepare
from fedsub_data.preparing.preparation import Prepared

from ....official_pictures import styles

IDS = ("n02099601", "n01443537", "n04067472")
ROOT = "tiny-imagenet-200"


@pytest.fixture(scope="module")
def files(real_data: Path) -> dict[str, bytes]:
    """Twelve training and two validation pictures of three classes, and the lists."""
    pictures = styles(real_data, 2, 14)
    made = {
        "wnids.txt": "".join(f"{one}\n" for one in IDS),
        "words.txt": "n01443537\tgoldfish, Carassius auratus\nn02099601\tgolden retriever\n"
        "n04067472\treel\n",
        "test/images/test_0.JPEG": "",
    }
    bodies = {name: text.encode() for name, text in made.items()}
    lines = []
    for label, one in enumerate(IDS):
        for i, body in enumerate(pictures[label]):
            if i < 12:
                bodies[f"train/{one}/images/{one}_{i}.JPEG"] = body
                continue
            name = f"val_{3 * (i - 12) + label}.JPEG"
            bodies[f"val/images/{name}"] = body
            lines.append(f"{name}\t{one}\t0\t0\t62\t62\n")
    bodies["val/val_annotations.txt"] = "".join(lines).encode()
    return bodies


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(f"{ROOT}/{name}", body)
    return path


def made(source: Path, per_class: int = 0) -> Prepared:
    return prepare(source, TinyImageNetOptions(per_class), 1, lambda done, total: None)


def test_train_and_val_are_the_clients(tmp_path: Path, files: dict[str, bytes]) -> None:
    result = made(zipped(tmp_path / "t.zip", files))
    assert dict(result.counts) == {"pictures: train": 36, "pictures: val": 6}
    card = result.federation.card
    assert card.classes == ("n02099601 golden retriever", "n01443537 goldfish", "n04067472 reel")
    assert result.federation.clients["val"].y.tolist() == [0, 1, 2, 0, 1, 2]
    assert result.federation.clients["train"].x.shape == (36, 3, 64, 64)


def test_the_first_of_each_class_by_their_numbers(tmp_path: Path, files: dict[str, bytes]) -> None:
    source = zipped(tmp_path / "t.zip", files)
    few, all_of_them = made(source, 11).federation, made(source).federation
    assert few.clients["train"].y.tolist() == sorted([0, 1, 2] * 11, key=lambda y: IDS[y])
    # 9 stands before 10: the last of twelve, 11, is left out.
    assert (few.clients["train"].x[:11] == all_of_them.clients["train"].x[:11]).all()


def test_the_unpacked_folder(tmp_path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(zipped(tmp_path / "t.zip", files)) as archive:
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
        made(zipped(tmp_path / "t.zip", kept))


def test_a_truncated_zip_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    path = zipped(tmp_path / "t.zip", files)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"t\.zip: cannot be read"):
        made(path)
