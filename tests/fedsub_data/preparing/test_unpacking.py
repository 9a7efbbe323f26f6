"""Archives of a few megabytes that would unpack to gigabytes: refused by name, in little memory."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.importing import open_source
from fedsub_data.importing.options import ImportOptions
from fedsub_data.preparing.options import options_of
from fedsub_data.preparing.preparers import prepare
from fedsub_data.preparing.unpacking import most_unpacked, tar_files, unpacked

OFFICIAL = "WISDM_ar_v1.1/WISDM_ar_v1.1_raw.txt"
CSV = "Activity recognition exp/Phones_accelerometer.csv"
#: 16 MiB of zeros, and how often they are a gigabyte.
ZEROS, GIGABYTE = bytes(2**24), 64


def repeated(block: bytes, times: int, begin: bytes = b"") -> bytes:
    """Return what gzip unpacks to `begin` and `times` blocks, without packing each of them."""
    return gzip.compress(begin) + gzip.compress(block) * times


def header(name: str, kind: bytes, size: int) -> bytes:
    one = tarfile.TarInfo(name)
    one.type, one.size = kind, size
    return one.tobuf(tarfile.GNU_FORMAT)


def with_holes() -> bytes:
    """Return the official file's header of GNU's old sparse format, which says a terabyte."""
    block = bytearray(header(OFFICIAL, tarfile.GNUTYPE_SPARSE, 512))
    block[386:410] = b"%011o\0%011o\0" % (0, 512)
    block[483:495] = b"\x80" + (2**40).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return gzip.compress(bytes(block) + bytes(3 * 512))


def record(key: str, value: object) -> bytes:
    """Return a line of a PAX header, which begins with its own length."""
    rest = f" {key}={value}\n"
    length = next(n for n in range(len(rest), 99) if len(str(n)) + len(rest) == n)
    return f"{length}{rest}".encode()


def holes_listed() -> bytes:
    """Return PAX's sparse format, whose list of holes stands in front of the file's bytes."""
    said = record("GNU.sparse.major", 1) + record("GNU.sparse.minor", 0)
    said += record("GNU.sparse.name", OFFICIAL) + record("GNU.sparse.realsize", 2**40)
    first = header("x", tarfile.XHDTYPE, len(said)) + said.ljust(512, b"\0")
    first += header("a", tarfile.REGTYPE, 2**31) + b"900000000\n"
    return repeated(b"1\n" * 2**22, 8, first)


def tars() -> Iterator[tuple[str, str, bytes]]:
    """Yield what a tar tries, what its refusal says, and it."""
    gigabyte = 2**30
    about = "expected at most 65,536 bytes about one file in it"
    for name, kind in (("PAX", tarfile.XHDTYPE), ("PAX of all", tarfile.XGLTYPE),
                       ("long name", tarfile.GNUTYPE_LONGNAME),
                       ("long link", tarfile.GNUTYPE_LONGLINK)):  # fmt: skip
        first = header("x", kind, 3 * gigabyte)
        yield name, about, repeated(ZEROS, 3 * GIGABYTE, first)
        # Each says of the next that it is about the one behind it.
        yield f"{name}s", about, gzip.compress(header("x", kind, 0) * 100_000)
    yield (
        "a line",
        "line 1: got a longer line",
        repeated(ZEROS, GIGABYTE, header(OFFICIAL, tarfile.REGTYPE, gigabyte)),
    )
    yield (
        "another file",
        "bytes unpacked",
        repeated(ZEROS, GIGABYTE, header("a", tarfile.REGTYPE, 2**42)),
    )
    yield "holes", "with holes", with_holes()
    yield "a list of holes", about, holes_listed()


def zipped(name: str, gigabytes: int) -> bytes:
    """Return a zip with zeros; its checksum is wrong, which is never looked at."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    one = pack.compress(ZEROS) + pack.flush(zlib.Z_FULL_FLUSH)
    body = one * (GIGABYTE * gigabytes) + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    sizes = struct.pack("<3L", 0, len(body), gigabytes * 2**30)
    local = struct.pack("<4s5H", b"PK\3\4", 20, 0, 8, 0, 33) + sizes
    local += struct.pack("<2H", len(name), 0) + name.encode()
    central = struct.pack("<4s6H", b"PK\1\2", 20, 20, 0, 8, 0, 33) + sizes
    central += struct.pack("<5H2L", len(name), 0, 0, 0, 0, 0, 0) + name.encode()
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(body), 0)
    return local + body + central + end


def again(entries: int) -> bytes:
    """Return a zip that lists one file of 1 MiB many times over: all lie on top of each other."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CSV, bytes(2**20))
    raw = out.getvalue()
    start, end = raw.index(b"PK\1\2"), raw.index(b"PK\5\6")
    listed = raw[start:end] * entries
    tail = struct.pack("<4H2LH", 0, 0, *[min(entries, 2**16 - 1)] * 2, len(listed), start, 0)
    return raw[:start] + listed + b"PK\5\6" + tail


def zips() -> Iterator[tuple[str, str, bytes]]:
    yield "three gigabytes", "got 3,221,225,472, expected at most", zipped(CSV, 3)
    yield "on top of each other", "bytes unpacked", again(5_000)
    yield "a long list", "expected at most 33,554,432 bytes about the files", again(500_000)
    nested = io.BytesIO()
    with zipfile.ZipFile(nested, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.zip", zipped(CSV, 3))
    yield "in a zip", "got 3,221,225,472, expected at most", nested.getvalue()


@pytest.mark.parametrize(("name", "archives"), [("wisdm", tars), ("hhar", zips)])
def test_archives_that_would_fill_the_memory(name: str, archives: object, tmp_path: Path) -> None:
    assert callable(archives)
    source = tmp_path / {"wisdm": "official.tar.gz", "hhar": "official.zip"}[name]
    for what, expected, raw in archives():
        source.write_bytes(raw)
        tracemalloc.start()
        with pytest.raises(DataError) as caught:
            prepare(name, source, tmp_path / "out", options_of(name)(), 1, lambda done, total: None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert expected in str(caught.value) and str(source) in str(caught.value), what
        assert peak < 2**27, what
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("line", [b"a,walk,1\n", b"\0"])
def test_a_packed_table_that_would_fill_the_disk(
    line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    source = tmp_path / "rows.csv.gz"
    block = line * (2**24 // len(line))
    source.write_bytes(repeated(block, GIGABYTE, b"subject,label,x\n"))
    most = most_unpacked(source.stat().st_size)
    with refused(DataError, "rows.csv.gz", expected=f"{most:,}"):
        open_source([str(source)], ImportOptions())
    assert list(tmp_path.iterdir()) == [source]


def test_what_holds_much_and_is_honest_is_read_to_its_end(tmp_path: Path) -> None:
    # A small file may hold 64 MiB whatever its size; and names are longer than 100 letters.
    text = b"0\t" * 2**23
    path = tmp_path / "graph.tar.gz"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(path, "w:gz", format=form) as archive:
            for n in range(3):
                one = tarfile.TarInfo("folder/" * 30 + f"{n}")
                one.size = len(text)
                archive.addfile(one, io.BytesIO(text))
        assert [(m.name[-1], f.read() == text) for m, f in tar_files(path)] == [
            ("0", True), ("1", True), ("2", True)
        ]  # fmt: skip
    with unpacked(path) as file:
        assert len(file.read()) > 3 * len(text)
