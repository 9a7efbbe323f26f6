"""New samples for a person's model: read and checked where they enter."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.edges import Edges, check_edges
from fedsub_core.data.npz import read_npz
from fedsub_core.data.samples import LEVELS, Nodes, Pixels, Samples, Tokens
from fedsub_core.data.standardise import Scaling, apply
from fedsub_core.errors import DataError

#: Standard deviations from the training data's mean beyond which a value is no such datum. The
#: furthest test sample of the prepared federations (WISDM, UCI HAR, WESAD, watch) is 31 away.
FAR = 50.0
#: Features that a message names at most.
SHOWN = 3


def read_samples(path: Path | str) -> dict[str, NDArray[Any]]:
    """Return ``x`` of an npz file, and ``edges`` where it has some, not checked.

    Other arrays are ignored.

    Raises DataError where the file is missing or damaged, is no npz, or holds no ``x``.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected an npz with x. Check the path.")
    if path.suffix.lower() not in ("", ".npz") and not zipfile.is_zipfile(path):
        raise DataError(
            f"{path}: got a {path.suffix} file, expected an .npz file with x. Of a table with "
            "labels, `fedsub data import` writes one for each person: <folder>/clients/<id>.npz. "
            "Of an array, numpy.savez('new.npz', x=x) writes it."
        )
    try:
        arrays, names = read_npz(path, ("x", "edges"))
    except Exception as error:  # a damaged zip makes numpy raise nearly anything
        raise DataError(
            f"{path}: cannot be read as npz arrays ({type(error).__name__}: {error}). Write it "
            "with numpy.savez(path, x=x)."
        ) from error
    if "x" not in arrays:
        raise DataError(f"{path}: got arrays {names}, expected x. Write it again with x.")
    return arrays


def check_samples(x: NDArray[Any], card: Card, shape: tuple[int, ...], where: str) -> Samples:
    """Return `x` as the model's training data are kept: float32, images uint8, token ids int32.

    Parameters
    ----------
    card, shape : of the data that the model was trained on; `shape` is one sample's, with what its
        numbers are.
    where : what the messages begin with.

    Raises DataError where `x` is of another type or shape, empty, or holds what is no finite number
    or no token of the vocabulary.
    """
    if isinstance(shape, (Pixels, Tokens)) and x.dtype.kind not in "iu":
        raise DataError(
            f"{where}: x: got {x.dtype}, expected an integer type, as the model was trained on "
            f"{shape!r}. Give them as they are in the data."
        )
    if x.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: x: got {x.dtype}, expected a float or integer type. Convert it to float32."
        )
    if not x.ndim or x.shape[1:] != tuple(shape):
        do = (
            "Give one sample as x[None]." if x.shape == tuple(shape) else "Check the order of axes."
        )
        what = "token ids" if isinstance(shape, Tokens) else f"features {', '.join(card.features)}"
        raise DataError(
            f"{where}: x: got shape {x.shape}, expected [n, {', '.join(map(str, shape))}] with the "
            f"{shape[0]} {what}. {do}"
        )
    if not len(x):
        raise DataError(f"{where}: x: got no sample, expected one at least. Check how it was made.")
    if isinstance(shape, (Pixels, Tokens)):
        return _whole_numbers(x, shape, where)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite: refused next
        single = np.ascontiguousarray(x, np.float32)
    if not np.isfinite(single).all():
        at = tuple(np.argwhere(~np.isfinite(single))[0])
        raise DataError(
            f"{where}: x, row {at[0]}, feature {at[1]} ({card.features[at[1]]!r}): got {x[at]}, "
            "expected a finite number. Drop or fill such samples before."
        )
    return single


def _whole_numbers(x: NDArray[Any], shape: Pixels | Tokens, where: str) -> Samples:
    """Return bytes or token ids as they are kept, refuse others."""
    most = shape.vocabulary if isinstance(shape, Tokens) else LEVELS
    if x.min() < 0 or x.max() >= most:
        row = np.argwhere((x < 0) | (x >= most))[0]
        what = "the vocabulary's ids" if isinstance(shape, Tokens) else "bytes"
        raise DataError(
            f"{where}: x, row {row[0]}: got {x[tuple(row)]}, expected 0 to {most - 1}, {what}. "
            "Correct such samples before."
        )
    if not isinstance(shape, Tokens):
        return np.ascontiguousarray(x, np.uint8)
    if len(empty := np.flatnonzero((x == shape.padding).all(axis=1))):
        raise DataError(
            f"{where}: x, row {empty[0]}: got padding {shape.padding} alone, expected one token at "
            "least. Drop empty texts."
        )
    return np.ascontiguousarray(x, np.int32)


def check_new_edges(
    edges: NDArray[Any] | None, x: Samples, shape: tuple[int, ...], where: str
) -> Edges | None:
    """Return the edges of new nodes ``x [n, F]``, refuse others; None of all but nodes.

    Raises DataError where nodes come without edges, which may be none but must be said, or edges
    with others.
    """

    def refused(what: str, got: object, expected: str, do: str) -> DataError:
        return DataError(f"{where}: {what}: got {got}, expected {expected}. {do}")

    if isinstance(shape, Nodes) and edges is None:
        raise refused("edges", "none", "[2, m], rows of x", "Give [2, 0] where nobody is joined.")
    given = {} if edges is None else {"edges": edges}
    return check_edges(given, x.shape, isinstance(shape, Nodes), refused)


def check_distances(
    x: Samples, card: Card, scaling: Scaling, where: str, graph: bool = False
) -> str:
    """Return a warning of rows that hold values far from the training data; "" if there is none.

    Parameters
    ----------
    x : [n, *features], as :func:`check_samples` returns it.
    graph : rows are nodes, whose features are often rare words: one that 1 node of 5,000 has is 70
        standard deviations away there. So a row's root mean square over features is judged.
    scaling : mean and standard deviation of the training data.
    where : what the messages begin with.

    Raises DataError where all rows do: then it is a matter of units, and no answer means anything.
    """
    with np.errstate(over="ignore"):
        away = np.abs(apply(scaling, x)).reshape(len(x), len(card.features), -1).max(2)
    of_row = np.sqrt(np.square(away).mean(1)) if graph else away.max(1)
    rows = np.flatnonzero(of_row > FAR)
    if not len(rows):
        return ""
    features = [i for i in np.argsort(-away.max(0)) if away[:, i].max() > FAR]
    worst = "; ".join(
        f"feature {i} ({card.features[i]!r}) up to {away[:, i].max():,.0f}, in row "
        f"{away[:, i].argmax()}"
        for i in features[:SHOWN]
    )
    more = f"; {len(features) - SHOWN} features more" if len(features) > SHOWN else ""
    finding = (
        f"{where}: x: {len(rows)} of {len(x)} rows (the first is row {rows[0]}) hold values more "
        f"than {FAR:g} standard deviations from the training data's mean: {worst}{more}"
    )
    units = f"Check the units, expected {card.units}." if card.units else "Check the units."
    if len(rows) == len(x):
        raise DataError(f"{finding}. No answer would mean anything. {units}")
    return f"{finding}. What is answered for them means nothing. {units}"
