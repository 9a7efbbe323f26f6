"""Official files of sets of pictures, rebuilt from the real pieces beside the real federations."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def mnist(folder: Path, real_data: Path, train: int = 60, test: int = 40) -> Path:
    """Write MNIST's four files with real digits of both parts into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with np.load(real_data / "images/mnist20k.npz") as file:
        x, y, of_train = file["x"], file["y"], file["train"]
    for begin, rows in (
        ("train", np.flatnonzero(of_train)[:train]),
        ("t10k", np.flatnonzero(~of_train)[:test]),
    ):
        for what, values in (("images-idx3", x[rows]), ("labels-idx1", y[rows])):
            path = folder / f"{begin}-{what}-ubyte.gz"
            path.write_bytes(gzip.compress(idx(values.astype(np.uint8)), 1))
    return folder


def idx(values: NDArray[np.uint8]) -> bytes:
    """Return an IDX file of bytes."""
    header = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return header + values.tobytes()


def photographs(real_data: Path, count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return CIFAR-10's pictures, uint8 [count, 3, 32, 32], and labels; all classes alike often."""
    with np.load(real_data / "images/cifar10.npz") as file:
        offsets, labels, jpeg = file["offsets"], file["y"], file["jpeg"]
        each = [np.flatnonzero(labels == label)[: -(-count // 10)] for label in range(10)]
        rows = np.stack(each, axis=1).ravel()[:count]
        x = [np.asarray(Image.open(io.BytesIO(_bytes(jpeg, offsets, row)))) for row in rows]
    return np.stack(x).transpose(0, 3, 1, 2), labels[rows].astype(np.int64)


def cifar10(path: Path, x: NDArray[np.uint8], y: NDArray[np.int64]) -> Path:
    """Write CIFAR-10's archive with pictures uint8 [n, 3, 32, 32] in its six batches."""
    files = {"batches.meta": pickled({"label_names": list(CIFAR10), "num_vis": 3072})}
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, rows in zip(names, np.array_split(np.arange(len(y)), 6), strict=True):
        data = x[rows].reshape(len(rows), -1)
        files[name] = pickled({"batch_label": name, "labels": y[rows].tolist(), "data": data})
    return archive(path, "cifar-10-batches-py", files)


def styles(real_data: Path, domain: int, each: int) -> dict[int, list[bytes]]:
    """Return the first `each` JPEGs of PACS' seven classes in a domain, 64 x 64, by class."""
    with np.load(real_data / "images/pacs64.npz") as file:
        y, domains, offsets, jpeg = file["y"], file["domain"], file["offsets"], file["jpeg"]
    rows = {c: np.flatnonzero((y == c) & (domains == domain))[:each] for c in range(7)}
    return {c: [_bytes(jpeg, offsets, row) for row in found] for c, found in rows.items()}


def archive(path: Path, folder: str, files: Mapping[str, bytes]) -> Path:
    """Write an archive as the official ones are."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return path


def pickled(content: Mapping[str, Any]) -> bytes:
    """Return a dict as Python 2's cPickle writes it in protocol 2, as all official batches are."""
    parts = [b"\x80\x02}("]
    for key, value in content.items():
        parts += [_text(key), _value(value)]
    return b"".join([*parts, b"u."])


def _value(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        shape = b"".join(map(_number, value.shape))
        begin = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01("
        kind = (
            b"tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        )
        raw = value.tobytes()
        return begin + shape + kind + b"K\x00tb\x89T" + struct.pack("<i", len(raw)) + raw + b"tb"
    if isinstance(value, list):
        return b"](" + b"".join(map(_value, value)) + b"e"
    return _number(value) if isinstance(value, int) else _text(value)


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _text(text: str) -> bytes:
    return b"U" + bytes([len(text)]) + text.encode()


def _bytes(jpeg: NDArray[np.uint8], offsets: NDArray[np.int64], row: int) -> bytes:
    return jpeg[offsets[row] : offsets[row + 1]].tobytes()
