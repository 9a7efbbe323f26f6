"""More recordings for a federation's folder: cut as before, behind what is there, or not at all."""

from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsub_core.data.card import CARD_FILE, Card, check_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.before import Before
from fedsub_data.importing.files import ending, find_files
from fedsub_data.importing.importing import (
    begun,
    open_source,
    placed,
    write_cards,
    write_client,
    write_record,
)
from fedsub_data.importing.labels import folded
from fedsub_data.importing.options import NONE, ImportOptions, seconds
from fedsub_data.importing.plan import Plan, plan
from fedsub_data.importing.replacing import alone, replaced
from fedsub_data.importing.samples import Imported, Person, samples_of
from fedsub_data.importing.source import Source
from fedsub_data.importing.target_values import with_target
from fedsub_data.importing.time_options import WINDOW
from fedsub_data.preparing.preparation import Progress

#: What a card fixes: it cannot be given again with another value.
_FIXED = ("window", "overlap", "rate", "features", "name", "task", "units", "split-by", "target",
          "target-unit", "target-range")  # fmt: skip
#: Files whose columns have no names.
_ARRAYS = {".ts", ".npz", ".npy"}
#: How far a recording's rate may be from the folder's, relatively.
_NEAR = 0.1


def add_files(
    patterns: Sequence[str],
    folder: Path,
    given: ImportOptions,
    asked: Collection[str],
    new_classes: bool,
    progress: Progress,
) -> Imported:
    """Add the samples that files hold to a federation's folder, all of them or none.

    The card says how they are cut, and the record of the import how the files are read.

    Parameters
    ----------
    patterns : files, folders, or patterns such as ``data/*.csv``.
    given : options, of which those with the keys `asked` were said.
    new_classes : whether classes that the folder lacks are added.
    progress : told how many people are done, of how many.

    Raises DataError or ConfigError where something is not as expected, or does not fit what is
    there; nothing is changed then.
    """
    with alone(folder):
        before = Before(folder)
        options = _options(before, given, asked, patterns)
        with closing(open_source(patterns, options)) as source:
            _check_people(source, before)
            planned = with_target(plan(source, options, before.card.name, before), options)
            _check_units(planned, before)
            _check_rate(planned, before.card, "rate" in asked)
            codes, card = _classes(planned.card, before.card, options, new_classes)
            check_card(card, folder / CARD_FILE)
            planned = replace(planned, card=card)
            made = begun(planned, options)
            with replaced(folder) as draft:
                for person in samples_of(options, planned, made, progress):
                    own = before.behind(person if card.target else _coded(person, codes))
                    for data, place in placed(own, draft):
                        apart = place != draft
                        arrays = before.joined(data, apart)
                        check_client(folder / data.client, data.client, arrays, card)
                        write_client(place, data.client, arrays, apart)
                write_cards(draft, made)
                write_record(draft, _record(before, made, options, patterns))
    if new := [name for name in made.card.classes if name not in before.card.classes]:
        made.notes += (f"New classes: {', '.join(map(repr, new))}.",)
    if new := [name for name in planned.source.people if name not in before.people]:
        made.notes += (f"New people: {', '.join(map(repr, new))}.",)
    return made


def _options(
    before: Before, given: ImportOptions, asked: Collection[str], patterns: Sequence[str]
) -> ImportOptions:
    """Return the options of the import before, those that were said now, and what the card fixes.

    Raises ConfigError where one is said that the card fixes, with another value.
    """
    card = before.card
    said = {key.replace("-", "_"): getattr(given, key.replace("-", "_")) for key in asked}
    cut: dict[str, Any] = {"window": NONE}
    if before.windows and card.window_s and card.sampling_rate_hz:
        cut = {"window": f"{card.window_s:.12g}s", "overlap": card.overlap or 0.0}
        cut["rate"] = card.sampling_rate_hz
    fixed = {**cut, "name": card.name, "task": card.task, "units": card.units}
    fixed["split_by"] = card.groups or WINDOW
    fixed["target"] = ""
    if (target := card.target) is not None:
        fixed |= {"target": target.name, "target_unit": target.unit}
        fixed["target_range"] = f"{target.low!r},{target.high!r}"
    if _ARRAYS.isdisjoint(map(ending, find_files(patterns))):
        fixed["features"] = ",".join(card.features)
    for key in _FIXED:
        field = key.replace("-", "_")
        if key not in asked or field not in fixed:
            continue
        now, then = said[field], fixed[field]
        alike = now == then or (key == "window" and seconds(key, now) == seconds(key, str(then)))
        alike |= key == "target-range" and given.ends == (target and (target.low, target.high))
        if not alike:
            raise ConfigError(
                f"{key}: got {now!r}, expected {then!r}, as the card of {before.folder} has it. "
                "Leave the option out, or import into another folder"
            )
    return replace(before.options, **{**said, **fixed})


def _check_people(source: Source, before: Before) -> None:
    """Refuse a person whose id differs from one that is there in case alone."""
    there = {name.casefold(): name for name in before.people}
    for name in source.people:
        other = there.get(name.casefold(), name)
        if other != name and name not in before.people:
            raise DataError(
                f"person {name!r}: {before.folder} has {other!r}, expected names that differ in "
                "more than case. Write one of them as the other"
            )


def _check_units(planned: Plan, before: Before) -> None:
    """Refuse a conversion to units that are not the folder's."""
    if moved := [one for one in before.people if before.name_of(one) in planned.conversion.factors]:
        raise ConfigError(
            f"convert: got a unit that {before.folder} does not have, as for person {moved[0]!r}; "
            "expected its unit, to which the new ones are converted"
        )


def _check_rate(planned: Plan, card: Card, asked: bool) -> None:
    """Refuse recordings of another rate than the folder's, unless it was said."""
    rate, own = card.sampling_rate_hz, planned.own_rate
    if asked or own is None or rate is None or abs(own / rate - 1) <= _NEAR:
        return
    raise DataError(
        f"got {own:.4g} samples a second, the median over people, expected {rate:g}, as the card "
        f"has it. {spelt('rate', f'{rate:g}')} resamples them"
    )


def _classes(
    new: Card, card: Card, options: ImportOptions, add: bool
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Card]:
    """Return the folder's code of each new class, int64 [k], and its card with classes added.

    Raises DataError where features differ, or a class is not there that nobody said to add.
    """
    if new.features != card.features:
        raise DataError(
            f"features: got {', '.join(new.features)}, expected {', '.join(card.features)}, as the "
            "card has them"
        )
    if card.target is not None:  # rows have values, and no codes
        return np.zeros(0, np.int64), card
    known, codes = {folded(name): name for name in card.classes}, list[int]()
    classes = list(card.classes)
    for name in new.classes:
        like = known.get(folded(name), name)
        if name not in classes and like != name and options.spelling != "keep":
            if options.spelling == "stop":
                raise DataError(
                    f"class {name!r}: the card has {like!r}, expected one spelling. "
                    f"{spelt('spelling', 'merge')} takes it as that class, keep as another"
                )
            name = like  # the folder's spelling counts
        if name not in classes:
            if not add:
                raise DataError(
                    f"class {name!r}: not on the card, expected {', '.join(card.classes)}. "
                    f"{spelt('new-classes', 'add')} adds it"
                )
            classes.append(name)
        codes.append(classes.index(name))
    meanings = card.meanings and (*card.meanings, *classes[len(card.classes) :])
    return np.array(codes), replace(card, classes=tuple(classes), meanings=meanings)


def _coded(person: Person, codes: np.ndarray[Any, np.dtype[np.int64]]) -> Person:
    def coded(data: ClientData | None) -> ClientData | None:
        return None if data is None else replace(data, y=codes[data.y])

    return Person(person.client, coded(person.labelled), person.unlabelled)


def _record(
    before: Before, made: Imported, options: ImportOptions, patterns: Sequence[str]
) -> dict[str, Any]:
    """Return the folder's record, with one of what was added."""
    own, kept = made.record(options, patterns), before.record
    return {
        **kept,
        "resampled": {**kept.get("resampled", {}), **own["resampled"]},
        "added": [*kept.get("added", []), own],
    }
