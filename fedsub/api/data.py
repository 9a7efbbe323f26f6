"""Data from Python: a folder, files, a DataFrame or arrays as a federation."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.sources import WATCH, load_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import Value, describe, nearest
from fedsub_core.spelling import python, spelling
from fedsub_data.importing.arrays import ArraySource, Part, from_columns
from fedsub_data.importing.cells import texts, times
from fedsub_data.importing.importing import in_memory, open_source
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.resampled import resampled_sentences
from fedsub_data.importing.samples import Imported
from fedsub_data.importing.source import OpenSource

log = logging.getLogger("fedsub")


@spelling(python)
def federation(data: Any, **options: Any) -> Federation:
    """Return people's samples as a federation, in memory.

    Parameters
    ----------
    data
        One of: a federation's folder, or ``"watch"``, the one built in; a file, a folder of files
        or a pattern that ``fedsub data import`` reads; a pandas DataFrame with a row for each
        sample; a mapping of person to ``(x, y)`` or ``(x, y, t)``; a tuple ``(x, y, subject)`` or
        ``(x, y, subject, t)`` of arrays. ``x`` is [n, features], a row for each sample, or
        [n, channels, time], windows; ``t`` is seconds, or dates.
    **options
        Those of ``fedsub data import`` (``docs/your-data.md``), such as ``subject="user"``,
        ``window="2.56s"``, ``rate=50``, ``features=["ax", "ay"]``. Arrays take ``features`` as the
        names of ``x``'s second axis. Rows [n, features] with ``t`` are a signal, which is cut into
        windows unless ``window="none"``.

    Returns
    -------
    Federation
        With ``card`` and ``clients`` by id. What was dropped and guessed is told by the log
        ``fedsub``: as warnings, and as information.

    Raises
    ------
    DataError, ConfigError
        Where something is not as expected; it names the file or row, the column, and the option.
    """
    if isinstance(data, Federation):
        _no_options(options, "a federation")
        return data
    if isinstance(data, str | Path) and (str(data) == WATCH or Path(data, CARD_FILE).is_file()):
        _no_options(options, "a federation's folder")
        return load_federation(str(data))
    asked = _options(options)
    source: OpenSource
    name = "data"
    if isinstance(data, str | Path):
        source, name = open_source([str(data)], asked), Path(data).stem
    elif hasattr(data, "columns") and hasattr(data, "index"):
        columns = frame_columns(data, zoned=bool(asked.timezone))
        source = from_columns({"the DataFrame": columns}, None, asked)
    elif isinstance(data, Mapping | tuple):
        if asked.time_unit == AUTO:  # of arrays none is guessed
            asked = replace(asked, time_unit="s")
        source = _arrays(data, asked)
    else:
        raise DataError(
            f"data: got {type(data).__name__}, expected a folder, a file, a DataFrame, a mapping "
            "of person to (x, y), or a tuple (x, y, subject)"
        )
    with closing(source):
        made, told = in_memory(source, asked, name)
    _tell(told)
    return made


@spelling(python)
def save(federation: Federation, folder: Path | str) -> None:
    """Write a federation to a new folder; raises DataError where that already holds something."""
    write_federation(folder, federation)


def frame_columns(frame: Any, zoned: bool = False) -> dict[str, NDArray[Any]]:
    """Return the columns of a DataFrame; an index with a name is one of them.

    Dates with a zone become UTC; with `zoned` text that names it, beside dates that name none.

    Raises
    ------
    DataError
        Where the index has no name and is no count of rows: it may be time, or nothing; or where
        two columns have one name.
    """
    index = frame.index
    if any(name is not None for name in index.names):
        columns = {str(name) for name in frame.columns}
        if twice := [name for name in index.names if str(name) in columns]:
            raise DataError(
                f"the DataFrame: got the name {twice[0]!r} for an index and for a column, expected "
                "one of both. df.reset_index(drop=True) leaves the index out"
            )
        frame = frame.reset_index()
    elif index.nlevels > 1 or index.dtype.kind not in "iu":
        shown = ", ".join(repr(value) for value in index[:3].tolist())
        raise DataError(
            f"the DataFrame: got an index of {index.dtype} without a name ({shown}, ...), expected "
            "numbers of rows. Where it is time, df.rename_axis('time') says so; else use "
            "df.reset_index(drop=True)"
        )
    names = [str(name) for name in frame.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the DataFrame: got column {twice[0]!r} twice, expected each name once")
    return {name: _plain(frame.iloc[:, i], zoned) for i, name in enumerate(names)}


def _plain(column: Any, zoned: bool) -> NDArray[Any]:
    """Return a column as an array; dates with a zone as UTC, categories as what they stand for."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC")
        column = column.astype(str) if zoned else column.dt.tz_localize(None)
    if column.dtype.kind in "mMfiub" and not hasattr(column.dtype, "categories"):
        plain: NDArray[Any] = column.to_numpy(
            **({"dtype": np.float64, "na_value": np.nan} if _nullable(column) else {})
        )
        return plain
    cells = zip(column.tolist(), column.isna(), strict=True)
    return np.fromiter((None if gone else value for value, gone in cells), object, len(column))


def _nullable(column: Any) -> bool:
    """Return whether whole numbers of pandas' own type stand there, which may be missing."""
    return not isinstance(column.dtype, np.dtype) and bool(column.isna().any())


def _arrays(data: Any, options: ImportOptions) -> ArraySource:
    parts = []
    if isinstance(data, tuple):
        if len(data) not in (3, 4):
            raise DataError(
                f"data: got a tuple of {len(data)}, expected (x, y, subject) or (x, y, subject, t)"
            )
        x, y, subject, *t = data
        whose = texts(even(subject, "data: subject"), "data", "subject")
        parts.append(_part("data", whose, x, y, t, options.date_form))
    else:
        ids = [str(person) for person in data]
        if twice := [one for one in dict.fromkeys(ids) if ids.count(one) > 1]:
            raise DataError(f"data: got two people {twice[0]!r}, expected ids that differ as text")
        for person, given in data.items():
            where = f"person {person!r}"
            if not isinstance(given, tuple | list) or len(given) not in (2, 3):
                raise DataError(
                    f"{where}: got {type(given).__name__}, expected (x, y) or (x, y, t)"
                )
            x, y, *t = given
            x = even(x, f"{where}: x")
            whose = np.full(x.shape[:1], str(person), object)
            parts.append(_part(where, whose, x, y, t, options.date_form))
    if not parts:
        raise DataError("data: got nobody, expected a person at least")
    width = parts[0].x.shape[1]
    names = options.named_features or tuple(f"x{i + 1}" for i in range(width))
    if len(names) != width:
        raise DataError(
            f"features: got {len(names)} names, expected {width}, one for each of x's second axis"
        )
    return ArraySource(parts, names, None if parts[0].times is None else "t", options)


def _part(where: str, subjects: NDArray[Any], x: Any, y: Any, t: Sequence[Any], dates: str) -> Part:
    values, labels = even(x, f"{where}: x"), even(y, f"{where}: y")
    if values.ndim not in (2, 3) or values.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: x: got {values.dtype} of shape {values.shape}, expected numbers "
            "[n, features] or [n, channels, time]"
        )
    for name, one in (("y", labels), ("subject", subjects), *(("t", np.asarray(v)) for v in t)):
        if one.shape != (len(values),):
            raise DataError(
                f"{where}: {name}: got shape {one.shape}, expected ({len(values)},), one for each "
                "of x"
            )
    read = times(np.asarray(t[0]), dates) if t else None
    own = texts(labels, where, "y", words=True)
    return Part(where, subjects, own, read, values.astype(np.float32))


def even(values: Any, where: str) -> NDArray[Any]:
    """Return lists or an array as an array; raises DataError where rows differ in length."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(
            f"{where}: got rows of different lengths, expected one length. Cut or fill them"
        ) from error


def _options(given: Mapping[str, Any]) -> ImportOptions:
    """Return the options of an import, as Python spells them.

    Raises
    ------
    ConfigError
        Where one does not exist, or its value is of the wrong kind.
    """
    known = {option.key.replace("-", "_"): option for option in describe(ImportOptions)}
    values: dict[str, Value] = {}
    for key, value in given.items():
        if key not in known:
            raise ConfigError(
                f"federation: unknown option {key!r}.{nearest(key, known, 'Known options')}"
            )
        if isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        if key in ("window", "gap") and isinstance(value, int | float):
            value = f"{value}"
        values[key] = known[key].check(value, "federation")
    return replace(ImportOptions(), **values)  # type: ignore[arg-type]  # each was checked


def _no_options(options: Mapping[str, Any], what: str) -> None:
    if options:
        raise ConfigError(
            f"federation: got {', '.join(options)} for {what}, expected none: its samples are made"
        )


def _tell(made: Imported) -> None:
    for note in made.notes:
        log.info("%s", note)
    resampled = resampled_sentences(made.dropped.resampled.by_person())
    for line in (*resampled, *made.dropped.sentences()):
        log.warning("%s", line)
