"""Files of arrays: NumPy's and MATLAB's, and ``.ts`` as sktime and aeon write it."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.npz import read_npz
from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.arrays import ArraySource, Part, from_columns
from fedsub_data.importing.cells import texts, times
from fedsub_data.importing.files import MAT, TS, Unchanged, people_of
from fedsub_data.importing.names import Names, names_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import LABELS, SUBJECTS, TIMES, plain

_KEYS = ("features", "label", "time", "subject")
#: Names of the array of samples.
_SAMPLES = ("x", "data", "windows", "samples", "signals", "features")


def array_files(files: Sequence[Path], kind: str, options: ImportOptions) -> ArraySource:
    """Return the source of the files; each is read once.

    Raises DataError where a file cannot be read, does not hold what is needed, or changes
    meanwhile.
    """
    named = names_of(files, options)
    owners = _owners(files, named)
    with Unchanged(files):
        if kind == MAT:
            from fedsub_data.importing.mat_files import read_mat

            mats = {str(path): read_mat(path) for path in files}
            tables = {where: arrays for where, (arrays, _) in mats.items()}
            source = _arrays(files, tables, named, options)
            source.notes += [note for _, notes in mats.values() for note in notes]
            return source
        if kind != TS:
            return _arrays(files, {str(p): _read_numpy(p) for p in files}, named, options)
        read = [read_ts(path) for path in files]
    parts = [
        Part(str(path), np.full(len(x), owner, object), labels, None, x)
        for path, owner, (x, labels) in zip(files, owners, read, strict=True)
    ]
    features = [f"dimension{i + 1}" for i in range(parts[0].x.shape[1])]
    return ArraySource(parts, features, None, options, _by_name(files, named))


def _owners(files: Sequence[Path], named: Names) -> Sequence[str]:
    return named.values.get("subject") or people_of(files)


def _by_name(files: Sequence[Path], named: Names) -> list[str]:
    if "subject" in named.values:
        return named.guessed({"subject", "recording"})
    if len(files) == 1:
        raise DataError(
            f"{files[0]}: got nothing that says whose a sample is, expected a file for each "
            f"person. Give several, {spelt('from-name')}, or {spelt('subject', 'ARRAY')} "
            "of an npz"
        )
    return ["Guessed: each file is a person, called as the file is."]


def read_ts(path: Path) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return the series of a ``.ts`` file, [n, dimensions, time], and their labels as text [n].

    ``?`` and NaN are missing values.

    Raises DataError where it has no labels, has time stamps, or series of different lengths; it
    names the line.
    """
    facts: dict[str, list[str]] = {}
    series, labels, first = [], [], None
    begun = False
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({cut(error)}). Check the file") from error
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            key, *words = line[1:].lower().split() or [""]
            facts[key] = words
            begun = key == "data"
            if key == "timestamps" and words[:1] == ["true"]:
                raise _ts(path, number, line, "series without time stamps")
            continue
        if not begun:
            raise _ts(path, number, line, "@data before the first series")
        if facts.get("classlabel", [])[:1] != ["true"]:
            raise _ts(path, number, line, "@classLabel true and the classes")
        *dimensions, label = line.split(":")
        sample = [_values(path, number, dimension) for dimension in dimensions]
        shape = (len(sample), len(sample[0]) if sample else 0)
        first = first or shape
        if shape != first or any(len(values) != shape[1] for values in sample) or 0 in shape:
            got = f"{shape[0]} dimensions of {', '.join(str(len(v)) for v in sample)} values"
            raise _ts(path, number, got, f"{first[0]} of {first[1]} each. Cut or fill them before")
        series.append(sample)
        labels.append(label.strip())
    if not series:
        raise _ts(path, len(lines), "no series", "some behind @data")
    return np.array(series, np.float32), np.array(labels, object)


def _values(path: Path, number: int, text: str) -> list[float]:
    try:
        return [np.nan if v.strip() in ("?", "") else float(v) for v in text.split(",")]
    except ValueError as error:
        raise _ts(path, number, str(error), "numbers with commas between") from error


def _ts(path: Path, line: int, got: str, expected: str) -> DataError:
    return DataError(f"{path}, line {line}: got {cut(got)}, expected {expected}")


def _arrays(
    files: Sequence[Path],
    tables: Mapping[str, Mapping[str, NDArray[Any]]],
    named: Names,
    options: ImportOptions,
) -> ArraySource:
    """Return the source of the arrays of each file."""
    owners = _owners(files, named)
    first = next(iter(tables.values()))
    if all(array.ndim == 1 for array in first.values()):
        has = options.subject or any(plain(name) in SUBJECTS for name in first)
        by_name = "subject" in named.asked_groups or (len(files) > 1 and not has)
        return from_columns(tables, owners if by_name else None, options, named)
    parts, time = [], None
    notes: dict[str, None] = {}
    subject = label = None
    for i, (where, arrays) in enumerate(tables.items()):
        x = _array(arrays, options.features, _SAMPLES, "features", where)
        label = None
        if "label" not in named.asked_groups:
            needed = "label" not in named.values and not options.intervals
            label = _array(arrays, options.label, LABELS, "label", where, needed)
        time = _array(arrays, options.time, TIMES, "time", where, needed=False)
        if "subject" not in named.asked_groups:
            subject = _array(arrays, options.subject, SUBJECTS, "subject", where, needed=False)
            if subject is None:
                notes |= dict.fromkeys(_by_name(files, named))
        assert x is not None
        values = arrays[x]
        if values.ndim not in (2, 3) or values.dtype.kind not in "fiu":
            raise DataError(
                f"{where}: {x}: got {values.dtype} of shape {values.shape}, expected numbers "
                "[rows, features] or [windows, channels, time]. Reshape it; of images and texts "
                "docs/data.md says how a federation is written"
            )
        for name in filter(None, (label, time, subject)):
            if arrays[name].shape != (len(values),):
                raise DataError(
                    f"{where}: {name}: got shape {arrays[name].shape}, expected "
                    f"({len(values)},), as {x} has. Write one for each sample"
                )
        whose = (
            texts(arrays[subject], where, subject)
            if subject
            else np.full(len(values), owners[i], object)
        )
        t = times(arrays[time], options.date_form) if time else None
        single = values.astype(np.float32)
        if label is None:
            labels = np.full(len(values), named.of("label", i), object)
            notes |= dict.fromkeys(named.guessed({"label"}))
        else:
            labels = texts(arrays[label], where, label, words=True)
        parts.append(Part(where, whose, labels, t, single))
        roles = (x, label, time, subject)
        notes |= dict.fromkeys(_guesses(dict(zip(_KEYS, roles, strict=True)), options))
    features = [f"x{i + 1}" for i in range(parts[0].x.shape[1])]
    return ArraySource(parts, features, time, options, list(notes))


def _guesses(arrays: Mapping[str, str | None], options: ImportOptions) -> list[str]:
    """Return a sentence on each array that was guessed; `arrays` are names by option."""
    return [
        f"Guessed: {spelt(key, name)}."
        for key, name in arrays.items()
        if name and not getattr(options, key)
    ]


def _array(
    arrays: Mapping[str, NDArray[Any]],
    given: str,
    known: Sequence[str],
    key: str,
    where: str,
    needed: bool = True,
) -> str | None:
    """Return the name of the array of a role; None where there is none and none is needed."""
    if given and given != "none":
        if given not in arrays:
            raise DataError(
                f"{where}: {key}: got {given!r}, expected one of the arrays {', '.join(arrays)}"
            )
        return given
    by = {plain(name): name for name in arrays}
    name = next((by[word] for word in known if word in by), None) if given != "none" else None
    if name is None and needed:
        raise DataError(
            f"{where}: got arrays {', '.join(arrays)}, expected one of {key}. Say which with "
            f"{spelt(key, 'ARRAY')}"
        )
    return name


def _read_numpy(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, or the fields of one structured array, by name."""
    try:
        if zipfile.is_zipfile(path):
            return read_npz(path)[0]
        loaded: Any = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged zip makes numpy raise nearly anything
        raise DataError(
            f"{path}: cannot be read as arrays ({type(error).__name__}: {cut(error)}). Write it "
            "with numpy.savez(path, x=x, y=y, subject=subject)"
        ) from error
    if loaded.dtype.names is None:
        raise DataError(
            f"{path}: got one array of {loaded.dtype} {loaded.shape}, expected samples with "
            "labels: a structured array, or numpy.savez(path, x=x, y=y, subject=subject)"
        )
    return {name: loaded[name] for name in loaded.dtype.names}
