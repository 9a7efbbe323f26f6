"""Columns beside the label whose names say that they are labels, too."""

import re
from collections.abc import Collection, Mapping, Sequence

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PREFIX = re.compile(r"([A-Za-z]+)[^A-Za-z0-9]+(?=.)")
_LABEL = {"label", "labels"}
#: Values of a label in the first rows at most.
_MOST_LABELS = 50


def other_labels(
    columns: Mapping[str, Sequence[str | None]], label: str, known: Collection[str]
) -> list[str]:
    """Return the columns whose names say that they are labels, too.

    ``label:walking``, ``posture_label`` and ``Label2`` have the word in their name. Where the label
    itself is called ``state:day``, so are ``state:night`` and others with few values.

    Parameters
    ----------
    columns : the first rows' texts by column.
    label : the column of the classes.
    known : words for a label, in small letters.
    """
    own = _PREFIX.match(label)
    start = own[0] if own and own[1].lower() in known else None
    return [
        name
        for name, values in columns.items()
        if name != label
        and (
            not _LABEL.isdisjoint(word.lower() for word in _WORD.findall(name))
            or (start is not None and name.startswith(start) and len(set(values)) <= _MOST_LABELS)
        )
    ]
