"""CIFAR's archives, rebuilt from 500 real photographs; crafted pickles build and run nothing."""

import gzip
import pickle
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import NothingToChoose, options_of
from fedsub_data.preparing.preparers import prepare
from fedsub_papers.preparing.options import CIFAR100Options
from fedsub_papers.tests.official_files.pictures import (
    archive,
    cifar10,
    cifar100,
    photographs,
    pickled,
)

Photographs = tuple[NDArray[np.uint8], NDArray[np.int64]]


@pytest.fixture(scope="module")
def pictures(real_data: Path) -> Photographs:
    return photographs(real_data, 500)


def made_of(name: str, source: Path, options: Any = None) -> Any:
    options = options_of(name)() if options is None else options
    out = source.parent / "out"
    assert not out.exists()
    return prepare(name, source, out, options, 1, lambda done, total: None)


def refusal(name: str, source: Path) -> str:
    with pytest.raises(DataError) as caught:
        made_of(name, source)
    assert not (source.parent / "out").exists()
    return str(caught.value)


def test_an_archive_of_500_photographs(tmp_path: Path, pictures: Photographs) -> None:
    x, y = pictures
    made = made_of("cifar10", cifar10(tmp_path / "cifar-10-python.tar.gz", x, y))
    assert dict(made.counts) == {"pictures: train": 417, "pictures: test": 83}
    back = read_federation(tmp_path / "out")
    assert back.card.features == ("red", "green", "blue") and back.card.sample == "image"
    assert (back.clients["train"].x == x[:417]).all() and (back.clients["test"].x == x[417:]).all()
    assert (back.clients["train"].y == y[:417]).all() and (back.clients["test"].y == y[417:]).all()


def test_the_unpacked_folder_and_one_that_holds_the_archive(
    tmp_path: Path, pictures: Photographs
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    path = cifar10(tmp_path / "a" / "cifar-10-python.tar.gz", *pictures)
    made = [made_of("cifar10", tmp_path / "a")]
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path / "a" / "b", filter="data")
    made.append(made_of("cifar10", tmp_path / "a" / "b"))
    made.append(made_of("cifar10", tmp_path / "a" / "b" / "cifar-10-batches-py"))
    for one in made:
        assert (one.federation.clients["train"].x == pictures[0][:417]).all()


def test_of_two_archives_in_a_folder_each_set_takes_its_own(
    tmp_path: Path, pictures: Photographs
) -> None:
    (tmp_path / "both").mkdir()
    cifar10(tmp_path / "both" / "cifar-10-python.tar.gz", *pictures)
    hundred(tmp_path / "both" / "cifar-100-python.tar.gz", pictures)
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        prepare(
            name,
            tmp_path / "both",
            tmp_path / name,
            options_of(name)(),
            1,
            lambda done, total: None,
        )
        assert len(read_federation(tmp_path / name).card.classes) == classes


def hundred(path: Path, pictures: Photographs, **changes: Any) -> Path:
    """Write CIFAR-100's archive with 400 pictures to train on and 100 to test."""
    x, y = pictures
    return cifar100(path, (x[:400], y[:400]), (x[400:], y[400:]), **changes)


@pytest.mark.parametrize(("labels", "factor", "add"), [("fine", 10, 9), ("coarse", 2, 1)])
def test_cifar_100_has_fine_and_coarse_labels(
    tmp_path: Path, pictures: Photographs, labels: str, factor: int, add: int
) -> None:
    source = hundred(tmp_path / "cifar-100-python.tar.gz", pictures)
    made = made_of("cifar100", source, CIFAR100Options(labels=labels))
    assert len(made.federation.card.classes) == {"fine": 100, "coarse": 20}[labels]
    assert (made.federation.clients["test"].y == factor * pictures[1][400:] + add).all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fine_labels": [100] * 400}, "label 100 of picture 0, expected 0 to 99"),
        ({"fine_labels": [-1] * 400}, "label -1 of picture 0"),
        ({"fine_labels": [0] * 399}, "got 399 labels, expected 400"),
        ({"fine_labels": ["cat"] * 400}, "expected a list of whole numbers"),
        ({"fine_labels": "cat"}, "fine_labels of str"),
        ({"data": np.zeros((400, 3071), np.uint8)}, r"data of shape \(400, 3071\), expected"),
        ({"data": [1, 2, 3]}, "expected uint8"),
    ],
)
def test_wrong_contents_are_refused_by_their_file(
    tmp_path: Path, pictures: Photographs, changes: dict[str, Any], said: str
) -> None:
    message = refusal("cifar100", hundred(tmp_path / "c.tar.gz", pictures, **changes))
    assert "cifar-100-python/train" in message and re.search(said, message), message


def test_a_batch_is_missing_twice_there_or_of_other_classes(
    tmp_path: Path, pictures: Photographs
) -> None:
    path = cifar10(tmp_path / "c.tar.gz", *pictures)
    with tarfile.open(path) as tar:
        files = {m.name.split("/")[1]: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    folder = "cifar-10-batches-py"
    batch = files.pop("data_batch_3")
    assert "no data_batch_3 in it" in refusal("cifar10", archive(path, folder, files))
    files |= {"data_batch_3": batch, "again/data_batch_3": batch}
    assert "a second data_batch_3" in refusal("cifar10", archive(path, folder, files))
    del files["again/data_batch_3"]
    files["batches.meta"] = pickled({"label_names": [f"c{i}" for i in range(10)]})
    assert "got classes c0" in refusal("cifar10", archive(path, folder, files))


def test_truncated_archives_are_refused(tmp_path: Path, pictures: Photographs) -> None:
    path = cifar10(tmp_path / "cifar-10-python.tar.gz", *pictures)
    whole = path.read_bytes()
    for eighths in range(8):
        path.write_bytes(whole[: len(whole) * eighths // 8])
        assert str(path) in refusal("cifar10", path)
    path.write_bytes(whole[:-8] + bytes(4) + whole[-4:])
    assert "CRC check failed" in refusal("cifar10", path)
    path.write_bytes(gzip.compress(gzip.decompress(whole)[:700_000], 1))
    assert "cifar-10-python.tar.gz" in refusal("cifar10", path)


class Calls:
    """What calls `print` when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this code ran",)


CRAFTED = {
    "a call": pickle.dumps({"data": Calls(), "labels": []}),
    "a call of protocol 0": b"cbuiltins\nprint\n(S'this code ran'\ntR.",
    "os.system": b"\x80\x02cposix\nsystem\n(U\x04truetR.",
    "numpy's own loader": b"\x80\x02cnumpy\nload\n(U\x04a.npytR.",
    "an array of pointers": (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01b"
        b"tR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff"
        b"\xff\xffK?tb\x89U\x08AAAAAAAAtbu."
    ),
    "an array larger than its bytes": pickled({"data": np.zeros((1, 3072), np.uint8)}).replace(
        b"J\x00\x0c\x00\x00", b"J\xff\xff\xff\x7f", 1
    ),
    "no dict": b"\x80\x02](K\x01e.",
    "nothing": b"",
    "text": b"<html>not found</html>",
}


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_pickles_run_nothing_and_are_refused(
    tmp_path: Path, pictures: Photographs, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path = cifar10(tmp_path / "c.tar.gz", pictures[0][:60], pictures[1][:60])
    with tarfile.open(path) as tar:
        files = {m.name.split("/")[1]: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    files["data_batch_2"] = CRAFTED[what]
    message = refusal("cifar10", archive(path, "cifar-10-batches-py", files))
    assert "cifar-10-batches-py/data_batch_2" in message
    assert "this code ran" not in capsys.readouterr().out


def test_links_and_folders_in_an_archive_are_no_batches(tmp_path: Path) -> None:
    path = tmp_path / "c.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.DIRTYPE):
            member = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
            member.type, member.linkname = kind, "/etc/passwd"
            tar.addfile(member)
    assert "no data_batch_1" in refusal("cifar10", path)
    assert isinstance(options_of("cifar10")(), NothingToChoose)
