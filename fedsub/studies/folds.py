"""Folds of a study: runs that differ in what is tested, and share one row of its tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedsub_core.config.tested import read_people
from fedsub_core.data.sources import WATCH, client_ids
from fedsub_core.data.splits import split_rng
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import suggestion

#: How many folds; :data:`PERSON`; or who is left out in each, ids with commas. 0: no folds.
Folds = int | str | tuple[str, ...]
#: What a fold sets in a run, in pairs.
Fold = tuple[tuple[str, Any], ...]
#: Each person is left out once.
PERSON = "person"
#: Keys of a run that folds set.
SET_BY_FOLDS = ("fold", "unseen-people")


def read_folds(where: Path, given: Any) -> Folds:
    """Return the folds that a file asks for, or a text of the command line.

    Raises ConfigError if they are none; it names `where`.
    """
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given)
    if given == PERSON or (type(given) is int and (given == 0 or given > 1)):
        return PERSON if given == PERSON else int(given)
    if isinstance(given, list) and len(given) > 1:
        people = [read_people(text) if isinstance(text, str) else () for text in given]
        ids = [name for group in people for name in group]
        if all(people) and len(set(ids)) == len(ids):
            return tuple(",".join(group) for group in people)
    near = suggestion(given, [PERSON]) if isinstance(given, str) else ""
    raise ConfigError(
        f"{where}: folds: got {given!r}, expected 2 or more, {PERSON!r}, or a list of whom each "
        f'leaves out, such as ["anna,ben", "carl"], everybody once at most.{near}'
    )


def folds_of(folds: Folds, source: str, split: str) -> list[Fold]:
    """Return the folds of a run on the data `source`; one that sets nothing where there are none.

    Of people who are left out, `folds` groups are drawn, the same for all seeds.

    Raises DataError if there are fewer people than folds.
    """
    if not folds:
        return [()]
    if isinstance(folds, tuple):
        return [_left_out(people) for people in folds]
    if folds != PERSON and split != "unseen":
        return [(("fold", f"{k}/{folds}"),) for k in range(1, int(folds) + 1)]
    if source != WATCH and not Path(source).exists():
        return [()]  # its runs fail, and say so
    people = sorted(client_ids(source))
    of = len(people) if folds == PERSON else int(folds)
    if not 1 < of <= len(people):
        raise DataError(
            f"{source}: folds: got {len(people)} people, expected {max(of, 2)} at least: each fold "
            "leaves somebody out"
        )
    if of < len(people):
        drawn = split_rng(0, "", "folds of people").permutation(len(people))
        groups = [sorted(people[i] for i in part) for part in np.array_split(drawn, of)]
    else:
        groups = [[one] for one in people]
    return [_left_out(",".join(group)) for group in groups]


def _left_out(people: str) -> Fold:
    return (("split", "unseen"), ("unseen-people", people))


def name_of_fold(fold: Fold) -> str:
    """Return a fold's name: such as 1/5, or who is left out; "" of none."""
    return str(fold[-1][1]) if fold else ""


def leaves_people_out(fold: Fold) -> bool:
    """Return whether a fold leaves people out of training."""
    return any(key == "unseen-people" for key, _ in fold)


def folds_in_words(folds: Sequence[Fold]) -> str:
    """Return a clause on the folds of runs; "" without any."""
    if not any(folds):
        return ""
    if all(map(leaves_people_out, folds)):
        each = all("," not in name_of_fold(fold) for fold in folds)
        who = "each person is left out once" if each else "groups of people are left out in turn"
        return f"; {len(folds)} folds: {who}"
    return f"; {len(folds)} folds, each tested once"
