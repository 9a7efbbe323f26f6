"""A client's file, ``clients/<id>.npz``, and the checks at the border where it enters.

The file holds ``x [n, F]`` or ``x [n, F, time]`` (any float or integer type), images
``x [n, F, height, width]`` (uint8 or floats) or token ids ``x [n, length]``, ``y [n]`` integer
labels and, where known, ``t [n]`` seconds. Of a graph's nodes ``x [n, F]`` there are also
``edges [2, m]``, pairs of rows of ``x`` (:mod:`fedsub_core.data.edges`). A client that gains data
during a run (a scenario) also has ``since [n]``, the round from which on it has each sample.
``group [n]``, integers, says which samples stay together in a split, such as those of one day;
``parts [n]`` in which part each is, where the run goes by that (``split = given``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ARRAYS, PARTS, ClientData
from fedsub_core.data.edges import Refuse, check_edges
from fedsub_core.data.npz import read_npz
from fedsub_core.data.samples import FEATURES, IMAGE, KINDS, NODE, TOKENS, WINDOW, Samples
from fedsub_core.data.standardise import LARGEST_VALUE
from fedsub_core.data.window_checks import check_windows
from fedsub_core.errors import DataError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id


def read_client(path: Path | str, card: Card) -> ClientData:
    """Return the client in the file `path`, checked against `card`.

    Raises DataError where the file is missing or damaged, lacks an array, or has one of a wrong
    type, shape or value; the message names the file and the first offending row.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a client's data. Check the path.")
    try:
        arrays, names = read_npz(path, ARRAYS)
    except PermissionError as error:
        raise DataError(
            f"{path}: may not be read ({error.strerror}). Give whoever runs this the right to it"
        ) from error
    except Exception as error:  # a damaged zip makes numpy raise nearly anything
        raise DataError(
            f"{path}: cannot be read as npz arrays ({type(error).__name__}: {error}); it is "
            "damaged, truncated or holds Python objects, as where samples differ in size. Fetch or "
            "write the file again."
        ) from error
    return check_client(path, path.stem, arrays, card, names)


def check_client(
    path: Path,
    client: str,
    arrays: Mapping[str, Any],
    card: Card,
    names: Collection[str] | None = None,
) -> ClientData:
    """Return the arrays as a client of the federation that `card` describes, or refuse them.

    Parameters
    ----------
    path : where the arrays come from or go to, for the message.
    client : the client's id.
    arrays : ``x``, ``y``, of nodes ``edges``, and optionally ``t`` and ``since``, of any type.
    card : the federation's.
    names : of all arrays that there are, for the message; None: of `arrays`.

    Raises DataError; as :func:`read_client`.
    """

    def refused(what: str, got: object, expected: str, do: str) -> DataError:
        return DataError(f"{path}: client {client!r}: {what}: got {got}, expected {expected}. {do}")

    if not is_client_id(client):
        raise refused("client id", repr(client), CLIENT_ID_RULE, "Rename the file.")
    graph = card.sample == NODE
    for name in ("x", "y", "edges") if graph else ("x", "y"):
        if name not in arrays:
            found = sorted(arrays if names is None else names)
            other = next((one for one in found if one.lower() == name), None)
            got = f"arrays {', '.join(found)}" if found else "no array"
            do = f"Rename {other} to {name}." if other else f"Write the file again with {name}."
            expected = f"x, y{', edges' if graph else ''} and optionally t and since"
            raise refused(f"array {name!r} is missing", got, expected, do)
    x, y = _shaped(arrays["x"], arrays["y"], card, refused)
    if card.sample == TOKENS:
        _check_tokens(x, card, refused)
    elif x.dtype != np.uint8:
        _check_numbers(x, arrays["x"], card, refused)
    _check_y(y, card, refused)
    t = _seconds(arrays["t"], len(y), refused) if "t" in arrays else None
    since = _rounds(arrays["since"], len(y), refused) if "since" in arrays else None
    check_windows(x.shape, t, card, refused)
    edges = check_edges(arrays, x.shape, graph, refused)
    group = _whole("group", arrays["group"], len(y), refused) if "group" in arrays else None
    parts = _whole("parts", arrays["parts"], len(y), refused) if "parts" in arrays else None
    if parts is not None and len(odd := np.flatnonzero((parts < 0) | (parts >= len(PARTS)))):
        expected = ", ".join(f"{i} ({name})" for i, name in enumerate(PARTS))
        raise refused(f"parts, row {odd[0]}", parts[odd[0]], expected, "Correct it.")
    y = y.astype(np.int64 if card.target is None else np.float64)
    return ClientData(client, x, y, t, since, edges, group, parts)


#: How each kind's ``x`` is shaped, and which types it may have.
_AXES = {
    FEATURES: "[n, {}]",
    WINDOW: "[n, {}, time]",
    IMAGE: "[n, {}, height, width]",
    TOKENS: "[n, length]",
    NODE: "[n, {}]",
}
_TYPES = {
    IMAGE: "uint8 (0 to 255) or a float type",
    TOKENS: "an integer type",
    None: "a float or integer type",
}


def _shaped(x: Any, y: Any, card: Card, refused: Refuse) -> tuple[Samples, Any]:
    channels = len(card.features)
    kind = card.sample or (IMAGE if x.ndim == KINDS[IMAGE] else None)
    types = kind if kind in _TYPES else None
    known = x.dtype.kind in ("iu" if kind == TOKENS else "fiu")
    if not known or (kind == IMAGE and x.dtype.kind != "f" and x.dtype != np.uint8):
        do = "Write ids as int32." if kind == TOKENS else "Convert it to float32."
        raise refused("x", x.dtype, _TYPES[types], do)
    kinds, expected, do = "iu", "integers [n]", "Write labels as int64."
    if card.target is not None:
        kinds, expected = "fiu", f"numbers [n], {card.target.name}"
        do = "Write values of the target as float64."
    if y.dtype.kind not in kinds or y.ndim != 1:
        raise refused("y", f"{y.dtype} {y.shape}", expected, do)
    axes = [KINDS[kind]] if kind else [KINDS[FEATURES], KINDS[WINDOW]]
    wide = kind == TOKENS or x.ndim < 2 or x.shape[1] == channels
    if x.ndim not in axes or not wide or 0 in x.shape[1:]:
        shapes = [_AXES[one].format(channels) for one in ([kind] if kind else (FEATURES, WINDOW))]
        whose = "the card's sample" if kind == TOKENS else "the card's features"
        do = "Check the order of axes and the card."
        raise refused("x", f"shape {x.shape}", f"{' or '.join(shapes)}, {whose}", do)
    if len(x) != len(y):
        raise refused("y", f"{len(y)} labels", f"{len(x)} as in x", "Write one per sample.")
    if len(x) == 0:
        raise refused("x", "no sample", "one at least", "Remove the client or give it data.")
    if kind == TOKENS:
        # Ids beyond int32 are beyond every vocabulary: they are refused next, as they stand here.
        fits = np.can_cast(x.dtype, np.int32) or (x.min() >= 0 and x.max() < 2**31)
        return (x.astype(np.int32) if fits else x), y
    if kind == IMAGE and x.dtype == np.uint8:
        return x, y
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite: refused later
        return x.astype(np.float32), y


def _check_y(y: Any, card: Card, refused: Refuse) -> None:
    """Refuse labels that are no class, and values beyond the target's range or no numbers."""
    if (target := card.target) is not None:
        wrong = np.flatnonzero(~((y >= target.low) & (y <= target.high)))  # NaN, too
        what, expected = "value", f"{target.low:g} to {target.high:g}, the range on the card"
        do = "Drop such samples, or widen the range."
    else:
        wrong = np.flatnonzero((y < 0) | (y >= len(card.classes)))
        what = "label"
        expected = f"0 to {len(card.classes) - 1}, the card's {len(card.classes)} classes"
        do = "Correct the labels or the card."
    if len(wrong):
        raise refused(f"y, row {wrong[0]}", f"{what} {y[wrong[0]]}", expected, do)


def _check_numbers(x: Samples, given: Any, card: Card, refused: Refuse) -> None:
    # Negated, for NaN compares as False. Of larger values no sums of squares are sent.
    if not (x.min() >= -LARGEST_VALUE and x.max() <= LARGEST_VALUE):
        at = tuple(np.argwhere(~(np.abs(x) <= LARGEST_VALUE))[0])
        what = f"x, row {at[0]}, feature {at[1]} ({card.features[at[1]]!r})"
        expected = f"a finite number of {LARGEST_VALUE:g} at most"
        raise refused(what, given[at], expected, "Drop or fill such samples before.")


def _check_tokens(x: Samples, card: Card, refused: Refuse) -> None:
    assert card.vocabulary is not None
    if x.min() < 0 or x.max() >= card.vocabulary:
        row, place = np.argwhere((x < 0) | (x >= card.vocabulary))[0]
        expected = f"0 to {card.vocabulary - 1}, the card's vocabulary of {card.vocabulary}"
        do = "Correct the ids or the vocabulary."
        raise refused(f"x, row {row}, place {place}", f"token {x[row, place]}", expected, do)
    empty = np.flatnonzero((x == card.padding).all(axis=1))
    if len(empty):
        got, expected = f"padding {card.padding} alone", "one token at least"
        raise refused(f"x, row {empty[0]}", got, expected, "Drop empty texts.")


def _seconds(t: Any, n: int, refused: Refuse) -> NDArray[np.float64]:
    if t.dtype.kind not in "fiu" or t.shape != (n,):
        raise refused("t", f"{t.dtype} {t.shape}", f"seconds [{n}]", "Write one per sample.")
    seconds: NDArray[np.float64] = t.astype(np.float64)
    if not np.isfinite(seconds).all():
        row = int(np.flatnonzero(~np.isfinite(seconds))[0])
        raise refused(f"t, row {row}", seconds[row], "finite seconds", "Fill it or leave t out.")
    return seconds


def _rounds(since: Any, n: int, refused: Refuse) -> NDArray[np.int64]:
    rounds = _whole("since", since, n, refused)
    if (rounds < 0).any():
        row = int(np.flatnonzero(rounds < 0)[0])
        raise refused(f"since, row {row}", rounds[row], "a round of 0 or more", "Correct it.")
    if (rounds > 1).all():
        expected = "some sample from round 1 on"
        raise refused("since", f"rounds from {rounds.min()} on", expected, "Lower the rounds.")
    return rounds


def _whole(name: str, given: Any, n: int, refused: Refuse) -> NDArray[np.int64]:
    if given.dtype.kind not in "iu" or given.shape != (n,):
        got, do = f"{given.dtype} {given.shape}", "Write one per sample, or leave it out."
        raise refused(name, got, f"whole numbers [{n}]", do)
    numbers: NDArray[np.int64] = given.astype(np.int64)
    return numbers
