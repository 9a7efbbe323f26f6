"""Errors matched by what they name, so that a better sentence breaks no test."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from fedsub_core.errors import MessageRefused

Refusal = TypeVar("Refusal", bound=BaseException)
#: The form of this house's errors, `where: got X, expected Y`; either half may be missing.
FORM = re.compile(r"(?s)^(?P<where>.*?)(\bgot (?P<got>.*?))?(,? \bexpected (?P<expected>.*))?$")


def names(text: str, value: object) -> bool:
    """Return whether a text holds a value as a whole: no part of a longer word or number."""
    return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text) is not None


@contextmanager
def refused(
    kind: type[Refusal] | tuple[type[Refusal], ...], *where: object, **fields: object
) -> Iterator[pytest.ExceptionInfo[Refusal]]:
    """Demand an error of a kind, which names these values.

    Parameters
    ----------
    where : values that the whole text names, in whatever order and words: keys, people, files.
    fields : ``got`` and ``expected``, what these parts of the text name: a value, or a list of
        some. Of a :class:`~fedsub_core.errors.MessageRefused` also ``what``, and ``client`` and
        ``round``, which must be equal.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error, text = caught.value, str(caught.value)
    form = FORM.match(text)
    parts = form.groupdict() if form else {}
    missing = [value for value in where if not names(text, value)]
    for field, wanted in fields.items():
        if isinstance(error, MessageRefused):
            parts[field] = getattr(error, field)
        if field in ("client", "round"):
            missing += [f"{field} = {wanted}"] * (parts[field] != wanted)
            continue
        values = wanted if isinstance(wanted, list) else [wanted]
        missing += [f"{field}: {v}" for v in values if not names(parts[field] or "", v)]
    assert not missing, f"{', '.join(map(str, missing))} not named in: {text}"
