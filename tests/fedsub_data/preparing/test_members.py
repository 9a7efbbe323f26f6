"""Official files in folders, zips and zips inside zips."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest

from fedsub_core.errors import DataError
from fedsub_data.preparing.members import find_members

WANTED = r"(?:.*/)?Protocol/subject\d+\.dat"
CONTENT = {
    "P/Protocol/subject102.dat": b"two",
    "P/Protocol/subject101.dat": b"one",
    "P/Optional/subject101.dat": b"no",
    "__MACOSX/P/Protocol/._subject101.dat": b"no",
}


def zipped(content: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    return data.getvalue()


def contents(source: Path) -> list[tuple[str, bytes]]:
    read = []
    for member in pickle.loads(pickle.dumps(find_members(source, WANTED, "Protocol/"))):
        with member.open() as file:
            read.append((member.name, file.read()))
        assert member.size() == len(read[-1][1])
    return read


def refusal(source: Path) -> str:
    with pytest.raises(DataError) as caught:
        contents(source)
    return str(caught.value)


BOTH = [("subject101.dat", b"one"), ("subject102.dat", b"two")]


def test_folder_its_inner_folder_and_a_single_file(tmp_path: Path) -> None:
    for name, text in CONTENT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text)
    assert contents(tmp_path) == BOTH
    assert contents(tmp_path / "P" / "Protocol") == BOTH
    assert contents(tmp_path / "P" / "Protocol" / "subject102.dat") == BOTH[1:]
    assert "no such file in it, expected Protocol/" in refusal(tmp_path / "P" / "Optional")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_and_zip_inside_a_zip(tmp_path: Path, method: int) -> None:
    inner = zipped(CONTENT)
    (tmp_path / "inner.zip").write_bytes(inner)
    (tmp_path / "outer.zip").write_bytes(zipped({"readme.txt": b"", "in.zip": inner}, method))
    assert contents(tmp_path / "inner.zip") == BOTH
    assert contents(tmp_path / "outer.zip") == BOTH
    (tmp_path / "outer.zip").unlink()
    assert contents(tmp_path) == BOTH


def test_what_is_missing_or_another_archive(tmp_path: Path) -> None:
    assert "none: got no such file or folder, expected Protocol/" in refusal(tmp_path / "none")
    other = tmp_path / "other.zip"
    other.write_bytes(zipped({"a.csv": b""}))
    assert "other.zip: got no such file in it, expected Protocol/" in refusal(other)


def test_damage(tmp_path: Path) -> None:
    whole = zipped({"Protocol/subject101.dat": bytes(range(256)) * 40}, zipfile.ZIP_STORED)
    path = tmp_path / "a.zip"
    path.write_bytes(whole[: len(whole) // 2])
    assert "a damaged or truncated zip" in refusal(path)
    path.write_bytes(whole.replace(bytes(range(100, 110)), bytes(10), 1))
    assert "a.zip/Protocol/subject101.dat: got BadZipFile: Bad CRC-32" in refusal(path)
    path.write_bytes(zipped({"in.zip": b"PK no zip"}))
    assert "a.zip/in.zip: got BadZipFile" in refusal(path)
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    assert "encrypted" in refusal(path)


def test_two_files_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "Protocol").mkdir(parents=True)
        (tmp_path / folder / "Protocol" / "subject101.dat").write_bytes(b"")
    assert "a second subject101.dat beside" in refusal(tmp_path)
