"""Official files of sets of pictures, rebuilt from the real pieces beside the real federations."""

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

#: Pictures uint8 [n, ...] and their labels int64 [n].
Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


def digits(real_data: Path, count: int, train: bool = True) -> Labelled:
    """Return MNIST's first digits of a part, [count, 28, 28]; again from the first one on."""
    with np.load(real_data / "images/mnist20k.npz") as file:
        rows = np.resize(np.flatnonzero(file["train"] == train), count)
        return file["x"][rows], file["y"][rows].astype(np.int64)


def made_smaller(x: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Return grey pictures [n, height, width] as [n, size, size]."""
    return np.stack([np.asarray(Image.fromarray(one).resize((size, size))) for one in x])


def mnist(folder: Path, real_data: Path, train: int = 60, test: int = 40) -> Path:
    """Write MNIST's four files with real digits of both parts into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for begin, (x, y) in (
        ("train", digits(real_data, train)),
        ("t10k", digits(real_data, test, train=False)),
    ):
        for what, values in (("images-idx3", x), ("labels-idx1", y)):
            path = folder / f"{begin}-{what}-ubyte.gz"
            path.write_bytes(gzip.compress(idx(values.astype(np.uint8)), 1))
    return folder


def idx(values: NDArray[np.uint8]) -> bytes:
    """Return an IDX file of bytes."""
    header = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    return header + values.tobytes()


def photographs(real_data: Path, count: int) -> Labelled:
    """Return CIFAR-10's pictures, [count, 3, 32, 32]; all classes alike often.

    There are 25,000. After the last one they begin again.
    """
    with np.load(real_data / "images/cifar10.npz") as file:
        offsets, labels, jpeg = file["offsets"], file["y"], file["jpeg"]
    each = [np.flatnonzero(labels == label)[: -(-count // 10)] for label in range(10)]
    rows = np.stack(each, axis=1).ravel()[:count]
    x = [np.asarray(Image.open(io.BytesIO(_bytes(jpeg, offsets, row)))) for row in rows]
    again = np.resize(np.arange(len(rows)), count)
    return np.stack(x).transpose(0, 3, 1, 2)[again], labels[rows[again]].astype(np.int64)


def cifar10(path: Path, x: NDArray[np.uint8], y: NDArray[np.int64]) -> Path:
    """Write CIFAR-10's archive with pictures uint8 [n, 3, 32, 32] in its six batches."""
    files = {"batches.meta": pickled({"label_names": list(CIFAR10), "num_vis": 3072})}
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for name, rows in zip(names, np.array_split(np.arange(len(y)), 6), strict=True):
        data = x[rows].reshape(len(rows), -1)
        files[name] = pickled({"batch_label": name, "labels": y[rows].tolist(), "data": data})
    return archive(path, "cifar-10-batches-py", files)


def cifar100(path: Path, train: Labelled, test: Labelled, **changes: Any) -> Path:
    """Write CIFAR-100's archive; its labels are those of ten classes, a hundred names.

    Parameters
    ----------
    changes : what the file of the training part holds instead.
    """
    fine, coarse = [f"thing {i}" for i in range(100)], [f"kind {i}" for i in range(20)]
    files: dict[str, dict[str, Any]] = {}
    files["meta"] = {"fine_label_names": fine, "coarse_label_names": coarse}
    for name, (x, y) in (("train", train), ("test", test)):
        files[name] = {
            "data": x.reshape(-1, 3072),
            "fine_labels": (10 * y + 9).tolist(),
            "coarse_labels": (2 * y + 1).tolist(),
        }
    files["train"] |= changes
    return archive(
        path, "cifar-100-python", {name: pickled(content) for name, content in files.items()}
    )


def svhn(folder: Path, train: Labelled, test: Labelled) -> Path:
    """Write SVHN's two files of pictures [n, 3, 32, 32]; label 0 is class 10, as the official."""
    for name, (x, y) in (("train", train), ("test", test)):
        classes = np.where(y == 0, 10, y).astype(np.uint8)[:, None]
        matlab(folder / f"{name}_32x32.mat", x.transpose(2, 3, 1, 0), classes)
    return folder


def matlab(path: Path, x: Any, y: Any) -> None:
    """Write SVHN's two arrays as one of its files."""
    savemat(path, {"X": x, "y": y}, do_compression=True)


def usps(folder: Path, train: Labelled, test: Labelled) -> Path:
    """Write USPS' two files of digits [n, 16, 16], as LIBSVM does."""
    for name, (x, y) in (("usps", train), ("usps.t", test)):
        text = "".join(_line(*one) for one in zip(x, y, strict=True))
        (folder / f"{name}.bz2").write_bytes(bz2.compress(text.encode()))
    return folder


def _line(picture: NDArray[np.uint8], label: int) -> str:
    values = (picture.ravel() / 127.5 - 1).round(6)
    return f"{label + 1} {' '.join(f'{i}:{v:g}' for i, v in enumerate(values, start=1))} \n"


def styles(real_data: Path, domain: int, each: int | None = None) -> dict[int, list[bytes]]:
    """Return the first `each` JPEGs of PACS' seven classes in a domain, 64 x 64, by class."""
    with np.load(real_data / "images/pacs64.npz") as file:
        y, domains, offsets, jpeg = file["y"], file["domain"], file["offsets"], file["jpeg"]
    rows = {c: np.flatnonzero((y == c) & (domains == domain))[:each] for c in range(7)}
    return {c: [_bytes(jpeg, offsets, row) for row in found] for c, found in rows.items()}


def pacs(
    folder: Path,
    real_data: Path,
    domains: Sequence[str],
    classes: Sequence[str],
    each: int | None = None,
    size: int = 64,
) -> Path:
    """Write PACS' folders with the first `each` pictures of a class; sketches are PNGs.

    Parameters
    ----------
    size : width and height in pixels. The official ones have 227, the real ones here 64.
    """
    for number, domain in enumerate(domains):
        for label, pictures in styles(real_data, number, each).items():
            place = folder / "kfold" / domain / classes[label]
            place.mkdir(parents=True)
            for i, body in enumerate(pictures):
                name = place / f"pic_{i:03d}.{'png' if domain == 'sketch' else 'jpg'}"
                if name.suffix == ".jpg" and size == 64:
                    name.write_bytes(body)
                    continue
                with Image.open(io.BytesIO(body)) as image:
                    image.resize((size, size)).save(name)
    return folder


def tiny_imagenet(
    ids: Sequence[str], words: str, train: Sequence[Sequence[bytes]], val: Sequence[Sequence[bytes]]
) -> dict[str, bytes]:
    """Return the files of TinyImageNet by their names in the zip.

    Parameters
    ----------
    words : the text of ``words.txt``.
    train, val : for each of `ids` its JPEGs.
    """
    made = {"wnids.txt": "".join(f"{one}\n" for one in ids), "words.txt": words}
    made["test/images/test_0.JPEG"] = ""
    bodies = {name: text.encode() for name, text in made.items()}
    lines = []
    for label, one in enumerate(ids):
        for i, body in enumerate(train[label]):
            bodies[f"train/{one}/images/{one}_{i}.JPEG"] = body
        for i, body in enumerate(val[label]):
            name = f"val_{len(ids) * i + label}.JPEG"
            bodies[f"val/images/{name}"] = body
            lines.append(f"{name}\t{one}\t0\t0\t62\t62\n")
    bodies["val/val_annotations.txt"] = "".join(lines).encode()
    return bodies


def tiny_imagenet_zip(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write TinyImageNet's zip."""
    with zipfile.ZipFile(path, "w") as zipped:
        for name, body in files.items():
            zipped.writestr(f"tiny-imagenet-200/{name}", body)
    return path


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
