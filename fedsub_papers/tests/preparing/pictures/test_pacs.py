"""PACS' folders, rebuilt from its real pictures: domains are clients, faults are named."""

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsub_core.errors import DataError
from fedsub_data.partitions.partitions import counted_partition
from fedsub_data.preparing.preparation import Prepared
from fedsub_papers.partitions.domains import DomainsOptions
from fedsub_papers.preparing.options import PACSOptions
from fedsub_papers.preparing.pictures.pacs import CLASSES, DOMAINS, prepare
from fedsub_papers.tests.official_files.pictures import pacs, styles


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Path:
    """Three pictures of each class in each domain; of sketches PNGs, as the official are."""
    return pacs(tmp_path_factory.mktemp("pacs"), real_data, DOMAINS, CLASSES, 3)


@pytest.fixture
def source(official: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(official, tmp_path / "PACS"))


def made(source: Path, size: int = 64) -> Prepared:
    return prepare(source, PACSOptions(size=size), 1, lambda done, total: None)


def test_domains_are_the_clients(source: Path, real_data: Path) -> None:
    result = made(source)
    assert dict(result.counts) == {f"pictures: {domain}": 21 for domain in DOMAINS}
    photo = result.federation.clients["photo"]
    assert photo.x.shape == (21, 3, 64, 64) and photo.y.tolist() == sorted(list(range(7)) * 3)
    body = styles(real_data, 2, 3)[6][2]
    assert (photo.x[20] == np.asarray(Image.open(io.BytesIO(body))).transpose(2, 0, 1)).all()
    dealt = counted_partition(result.federation, "domains", DomainsOptions(clients=8), 0).federation
    assert [name.split("-")[0] for name in dealt.clients] == sorted(2 * list(DOMAINS))


def test_a_zip_gives_the_same_and_pictures_are_made_smaller(source: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "PACS.zip", "w") as archive:
        for path in source.rglob("*.*"):
            archive.write(path, path.relative_to(tmp_path))
        archive.writestr("__MACOSX/PACS/kfold/photo/dog/._pic_000.jpg", b"not a picture")
    small, same = made(tmp_path / "PACS.zip", 16), made(source, 16)
    for name, data in small.federation.clients.items():
        assert data.x.shape[1:] == (3, 16, 16)
        assert (data.x == same.federation.clients[name].x).all()


def test_faults_are_named(source: Path) -> None:
    dog = source / "kfold" / "cartoon" / "dog" / "pic_001.jpg"
    whole = dog.read_bytes()

    def refusal() -> str:
        with pytest.raises(DataError) as caught:
            made(source)
        return str(caught.value)

    dog.write_bytes(whole[:300])
    assert "cartoon/dog/pic_001.jpg: got OSError" in refusal()
    dog.write_bytes(b"GIF89a" + whole)
    assert "UnidentifiedImageError" in refusal()
    with Image.open(io.BytesIO(whole)) as image:
        image.resize((60, 64)).save(dog)
    assert "pic_001.jpg: got a picture of 60 x 64, expected 64 x 64, as all others" in refusal()
    dog.unlink()
    cat = source / "kfold" / "cartoon" / "cat"
    cat.mkdir()
    (cat / "1.jpg").write_bytes(whole)
    assert "got a folder 'cat', expected one of dog, elephant" in refusal()
    shutil.rmtree(source / "kfold" / "cartoon")
    assert "got no picture of cartoon" in refusal()


def test_what_is_no_picture_s_size_is_not_decoded(source: Path) -> None:
    for path in source.rglob("*.*"):
        if path.is_file():
            Image.new("1", (4096, 4096)).save(path.with_suffix(".png"))
            break
    path.unlink()
    with pytest.raises(DataError, match="a picture of"):
        made(source)


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 and nothing more"])
def test_damaged_zips_are_refused(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "PACS.zip").write_bytes(body)
    with pytest.raises(DataError, match=r"PACS\.zip: cannot be read .*Fetch it again"):
        made(tmp_path / "PACS.zip")
    with pytest.raises(DataError, match="no such file in it, expected folders art_painting"):
        made(tmp_path)
