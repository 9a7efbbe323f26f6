"""Classes that are spelled in several ways, and texts that count as no class."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions

#: So many spellings or texts are shown.
_SHOWN = 5
#: Blanks, hyphens and underscores between two letters.
_BETWEEN = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W\d_])")

#: How the sentence begins.
NO_CLASS = "Counted as no label"

Names = Mapping[str, str | None]


def one_spelling(names: Names, options: ImportOptions) -> dict[str, str | None]:
    """Return the class of each label, in the classes' order; merged spellings take the last.

    Parameters
    ----------
    names : the class of each label as it is spelled; None is no class.

    Raises
    ------
    DataError
        Where classes differ in case, blanks, hyphens or underscores only, and no option says
        whether they are one.
    """
    alike = defaultdict[str, list[str]](list)
    for name in dict.fromkeys(names.values()):
        if name is not None:
            alike[_BETWEEN.sub("", name).casefold()].append(name)
    merged = {name: spellings[-1] for spellings in alike.values() for name in spellings}
    several = [spellings for spellings in alike.values() if len(spellings) > 1]
    if not several or options.spelling == "keep":
        return dict(names)
    if options.spelling == "stop":
        shown = "; ".join(", ".join(map(repr, one)) for one in several[:_SHOWN])
        more = f"; and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
        raise DataError(
            f"classes {shown}{more}: got names that differ in case or blanks only, expected one "
            f"spelling of each class. {spelt('spelling', 'merge')} makes one class of them, such "
            f"as {several[0][-1]!r}; keep takes each as a class of its own"
        )
    one = {text: None if name is None else merged[name] for text, name in names.items()}
    place = {name: at for at, name in enumerate(names.values())}  # where the kept spelling stands
    return dict(sorted(one.items(), key=lambda item: place[item[1]]))


def no_class(counts: Mapping[str, int], names: Names, options: ImportOptions) -> list[str]:
    """Return a sentence on texts that count as no class though no option says so.

    Parameters
    ----------
    counts : rows by label. Empty ones are passed over.
    names : as above.
    """
    found = [
        text
        for text in counts
        if names[text] is None and text.strip() and text.strip() not in options.no_labels
    ]
    if not found:
        return []
    shown = ", ".join(f"{text!r} ({counts[text]:,} rows)" for text in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more texts" if len(found) > _SHOWN else ""
    return [
        f"{NO_CLASS}: {shown}{more}. A class of such a name needs another one: rename it "
        "in the data."
    ]
