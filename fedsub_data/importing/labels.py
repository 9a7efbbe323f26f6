"""Classes of a table's labels: which text is which, spelled in one way, and no measurement."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import EMPTY, MOSTLY, is_number
from fedsub_data.importing.target_options import MOST_VALUES

#: More labels than this are measurements, not classes.
MOST_CLASSES = 500
#: So many whole numbers, and fewer, are codes of classes.
_CODES = 20
#: More of them are codes if they count from 0 or 1, and so large a share of the numbers is there.
_COUNTED = 0.9
_CLASSES_ALONE = "As labels they are classes; a target is a number to be predicted"
#: So many spellings or texts are shown.
_SHOWN = 5
#: Blanks, hyphens and underscores between two letters.
_BETWEEN = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")

#: How the sentence begins.
NO_CLASS = "Counted as no label"

Names = Mapping[str, str | None]


def classes_of(
    counts: Mapping[str, int], options: ImportOptions, where: str
) -> tuple[dict[str, str | None], tuple[str, ...], list[str]]:
    """Return the class of each label, the classes in their order, and sentences on other texts.

    `counts`: rows by label.

    Raises DataError as :func:`class_names` and :func:`one_spelling`.
    """
    most = MOST_VALUES if options.target else MOST_CLASSES
    instead = f"round the target {options.target!r}, such as to 0.1" if options.target else ""
    texts = class_names(sorted(counts), options.no_labels, where, most, instead)
    names = one_spelling(texts, options)
    classes = tuple(dict.fromkeys(name for name in names.values() if name is not None))
    return names, classes, no_class(counts, names, options)


def class_names(
    texts: Sequence[str],
    none: frozenset[str],
    where: str,
    most: int = MOST_CLASSES,
    instead: str = "",
) -> dict[str, str | None]:
    """Return the class that each label means, None for no class; numbers in their order.

    ``1`` and ``1.0`` are one class. Words are kept as they are, but for blanks around them.
    `instead`: of more than `most`, what to do; "": as with labels.

    Raises DataError where there are so many that they are measurements.
    """
    words = {text: text.strip() for text in texts}
    empty = {text for text, word in words.items() if word.lower() in EMPTY or word in none}
    numbers = all(is_number(words[text]) for text in texts if text not in empty)
    if numbers:
        words = {t: w if t in empty else _whole(w.replace(",", ".")) for t, w in words.items()}
        empty |= {text for text, word in words.items() if word in none}
    classes = {word for text, word in words.items() if text not in empty}
    if len(classes) > most:
        raise DataError(
            f"{where}: got {len(classes):,} classes or values, expected {most} at most: "
            + (
                instead
                or f"is it a measurement? Name another column with {spelt('label')}, or predict "
                f"the number with {spelt('target')}"
            )
        )
    ordered = sorted(classes, key=float) if numbers else sorted(classes)
    of = defaultdict[str, list[str]](list)
    for text in texts:
        if text not in empty:
            of[words[text]].append(text)
    # In the order of classes, then what means none.
    kept = {text: word for word in ordered for text in of[word]}
    return {**kept, **dict.fromkeys((t for t in texts if t in empty), None)}


def _whole(text: str) -> str:
    value = float(text)
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else text


def one_spelling(names: Names, options: ImportOptions) -> dict[str, str | None]:
    """Return the class of each label, in the classes' order; merged spellings take the last.

    `names`: the class of each label as it is spelled; None is no class.

    Raises DataError where classes differ in case, blanks, hyphens or underscores only, and no
    option says whether they are one.
    """
    alike = defaultdict[str, list[str]](list)
    for name in dict.fromkeys(names.values()):
        if name is not None:
            alike[folded(name)].append(name)
    merged = {name: spellings[-1] for spellings in alike.values() for name in spellings}
    several = [spellings for spellings in alike.values() if len(spellings) > 1]
    if not several or options.spelling == "keep":
        return dict(names)
    if options.spelling == "stop":
        shown = "; ".join(", ".join(map(repr, classes)) for classes in several[:_SHOWN])
        more = f"; and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
        raise DataError(
            f"classes {shown}{more}: got names that differ in case or blanks only, expected one "
            f"spelling of each class. {spelt('spelling', 'merge')} makes one class of them, such "
            f"as {several[0][-1]!r}; keep takes each as a class of its own"
        )
    classes = {text: None if name is None else merged[name] for text, name in names.items()}
    place = {name: at for at, name in enumerate(names.values())}  # where the kept spelling stands
    return dict(sorted(classes.items(), key=lambda item: place[item[1]]))


def folded(name: str) -> str:
    """Return a class's name without case, and without what may stand between letters."""
    return _BETWEEN.sub("", name).casefold()


def no_class(counts: Mapping[str, int], names: Names, options: ImportOptions) -> list[str]:
    """Return a sentence on texts that count as no class though no option says so.

    Parameters
    ----------
    counts : rows by label. Empty ones are passed over.
    names : as above.
    """
    uncounted = [
        text
        for text in counts
        if names[text] is None and text.strip() and text.strip() not in options.no_labels
    ]
    if not uncounted:
        return []
    shown = ", ".join(f"{text!r} ({counts[text]:,} rows)" for text in uncounted[:_SHOWN])
    more = f" and {len(uncounted) - _SHOWN} more texts" if len(uncounted) > _SHOWN else ""
    return [
        f"{NO_CLASS}: {shown}{more}. A class of such a name needs another one: rename it "
        "in the data."
    ]


def check_labels(labels: Sequence[str], options: ImportOptions, where: str) -> list[str]:
    """Refuse labels that are measurements; return sentences on labels that are whole numbers.

    Decimal numbers are measurements. So are many whole numbers that do not count from 0 or 1, such
    as those of a heart rate.

    Raises DataError; it shows some labels, and names the ways out.
    """
    numbers = [float(text.replace(",", ".")) for text in labels if is_number(text)]
    if options.measured_labels == "keep" or len(numbers) < MOSTLY * len(labels):
        return []
    decimals = [number for number in numbers if not number.is_integer()]
    least, most = min(numbers), max(numbers)
    if not decimals and len(numbers) <= _CODES:
        return []
    counted = least in (0, 1) and len(numbers) >= _COUNTED * (most - least + 1)
    if not decimals and counted:
        return [
            f"{len(numbers)} labels are whole numbers from {least:g} to {most:g}, taken as "
            f"classes. {_CLASSES_ALONE}."
        ]
    kind = "decimal" if decimals else "whole"
    shown = ", ".join(f"{number:.15g}" for number in (decimals or numbers)[:3])
    raise DataError(
        f"{where}: got {len(labels):,} labels that are {kind} numbers from {least:g} to {most:g} "
        f"({shown}, ...), as measurements are; expected classes. {_CLASSES_ALONE}: "
        f"{spelt('target')}. Make classes of them in a column, such as low and high, or name "
        f"another with {spelt('label')}. If they are codes of classes, "
        f"{spelt('measured-labels', 'keep')} takes each as one"
    )
