"""Archives made to do harm: each is refused by its name, and nothing is written or filled."""

import io
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fedsub_core.errors import DataError
from fedsub_data.preparing.options import options_of
from fedsub_data.preparing.preparers import prepare

#: An official file of each data set, as its archive has it.
MEMBERS = {
    "wesad": ("WESAD/S2/S2.pkl", "../../S2/S2.pkl", "/S2/S2.pkl"),
    "pamap2": ("PAMAP2_Dataset/Protocol/subject101.dat", "../Protocol/subject101.dat"),
    "uci-har": ("UCI HAR Dataset/train/y_train.txt", "UCI HAR Dataset.zip"),
    "hhar": ("Activity recognition exp/Phones_accelerometer.csv", "../Phones_accelerometer.csv"),
}
BODY = b"1 2 3\n" * 400
CENTRAL, LOCAL = b"PK\x01\x02", b"PK\x03\x04"
#: Where the central header has the name.
NAME = 46


def zipped(*members: str, body: bytes = BODY, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for member in members:
            archive.writestr(member, body)
    return out.getvalue()


def patched(raw: bytes, offset: int, new: bytes) -> bytes:
    """Change what both headers of a member say, at `offset` of the central one."""
    changed = bytearray(raw)
    for signature, at in ((CENTRAL, offset), (LOCAL, offset - (16 if offset == NAME else 2))):
        start = raw.index(signature) + at
        changed[start : start + len(new)] = new
    return bytes(changed)


@cache
def zips(name: str) -> dict[str, bytes]:
    """Return hostile zips of a data set by what they try, and one with bytes flipped."""
    members = MEMBERS[name]
    good = zipped(members[0])
    made = {f"member {member}": zipped(member) for member in members}
    made |= {
        "nothing": zipped(),
        "twice": zipped(members[0], members[0]),
        "encrypted": patched(good, 8, b"\x01\x00"),
        "of an unknown method": patched(good, 10, b"\x63\x00"),
        "of a version to come": patched(good, 6, b"\x54\x00"),
        "of a name in broken UTF-8": patched(patched(good, 8, b"\x00\x08"), NAME, b"\xff"),
        "of a wrong sum": patched(good, 16, b"\x00\x00\x00\x00"),
        "larger than it is": patched(good, 24, b"\xff\xff\xff\x7f"),
        "packed larger than it is": patched(good, 20, b"\xff\xff\xff\x7f"),
        "elsewhere": good.replace(CENTRAL, b"PK\x01\x03"),
        "a pickle of 100 MB in 100 kB": zipped(members[0], body=bytes(100_000_000)),
        "a zip of itself": zipped(f"{members[0]}.zip", body=good),
        "lzma": patched(good, 10, b"\x0e\x00"),
        "bzip2": patched(good, 10, b"\x0c\x00"),
    }
    made |= {f"cut at {part}": good[: len(good) * part // 8] for part in range(8)}
    made |= {f"flipped {n}": flipped(good, n) for n in range(40)}
    return made


def flipped(raw: bytes, seed: int) -> bytes:
    draw, changed = random.Random(seed), bytearray(raw)
    for _ in range(3):
        changed[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def tars() -> Iterator[tuple[str, bytes]]:
    for kind in ("REGTYPE", "SYMTYPE", "LNKTYPE", "CHRTYPE", "FIFOTYPE", "DIRTYPE"):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as archive:
            one = tarfile.TarInfo("WISDM_ar_v1.1/WISDM_ar_v1.1_raw.txt")
            one.type, one.linkname = getattr(tarfile, kind), "/etc/passwd"
            one.size = len(BODY) if kind == "REGTYPE" else 0
            archive.addfile(one, io.BytesIO(BODY))
        yield kind, out.getvalue()
        for seed in range(4):
            yield f"{kind} flipped {seed}", flipped(out.getvalue(), seed)


def refused(name: str, source: Path) -> None:
    out = source.parent / "out"
    before = sorted(source.parent.parent.rglob("*"))
    with pytest.raises(DataError):
        prepare(name, source, out, options_of(name)(), 1, lambda done, total: None)
    assert sorted(source.parent.parent.rglob("*")) == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", MEMBERS)
def test_hostile_zips_are_refused(name: str, tmp_path: Path) -> None:
    assert sum(len(zips(one)) for one in MEMBERS) > 200
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    source = folder / ("UCI HAR Dataset.zip" if name == "uci-har" else "official.zip")
    tracemalloc.start()
    for what, raw in zips(name).items():
        source.write_bytes(raw)
        try:
            refused(name, source)
        except Exception as error:
            raise AssertionError(f"{name}: {what}") from error
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400_000_000


def test_hostile_tars_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    source = folder / "WISDM_ar_latest.tar.gz"
    for what, raw in tars():
        source.write_bytes(raw)
        try:
            refused("wisdm", source)
        except Exception as error:
            raise AssertionError(what) from error
