"""A guess of the pattern that all files' names follow: persons, classes, recordings, sensors.

A person is a word for one and a number (``p01``), a recording a number, a class words without
numbers. Two words may be a person's name and a class where one of them is an activity in all
names (``anna/walking.csv``). Whatever does not fit all names is no guess.
"""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from fedsub_core.errors import listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import DEVICES, PARTS, SENSORS, words

#: Words before a person's number.
_PERSON = (
    "p", "s", "u", "id", "pid", "sid", "uid", "sub", "subj", "subject", "person", "participant",
    "user", "volunteer", "pat", "patient", "client", "proband", "vp", "teilnehmer", "sujet",
)  # fmt: skip
#: How words for activities begin.
_ACTIVITIES = (
    "walk", "run", "jog", "sit", "stand", "lie", "lay", "lying", "laying", "stair", "upstair",
    "downstair", "cycl", "bik", "driv", "sleep", "jump", "rest", "paddl", "row", "climb", "idle",
    "still", "bus", "train", "car", "tram", "eat", "drink", "cook", "clean", "wash", "brush",
    "typ", "writ", "read", "work", "fall", "squat", "push", "pull", "lift", "hop", "skip", "swim",
    "ski", "danc", "play", "stretch", "up", "down", "gehen", "laufen", "sitzen", "stehen", "liegen",
)  # fmt: skip
_WORD = r"[^\W\d_]+"
#: Between two parts of one name.
_BETWEEN = "[-_. ]+"
_PARTS = {
    "subject": rf"(?i:{'|'.join(_PERSON)})[-_ ]?\d+",
    "name": rf"{_WORD}",
    "label": rf"{_WORD}(?:[-_ ]{_WORD})*",
    "recording": r"(?i:(?:rec|recording|trial|session|run|take|rep|day|nr|no|t|r)[-_ ]?)?"
    r"\d+(?:[-_.:T]\d+)*",
    "sensor": rf"(?i:{'|'.join(sorted(SENSORS | DEVICES, key=lambda w: (-len(w), w)))})",
}
#: Fewer files follow no pattern.
_FEWEST = 2
#: So many names are shown.
_SHOWN = 3


def guessed_pattern(files: Sequence[Path]) -> tuple[str, list[str]]:
    """Return the pattern that all names follow, "" for none, and sentences on those that do not."""
    if len(files) < _FEWEST:
        return "", []
    whole = [path.absolute() for path in files]
    common = Path(os.path.commonpath([path.parent for path in whole]))
    inner = [path.relative_to(common).parts for path in whole]
    depth = len(inner[0])
    if any(len(parts) != depth for parts in inner):
        return "", []
    texts = ["/".join((*parts[:-1], parts[-1].partition(".")[0])) for parts in inner]
    best: tuple[int, str, list[str]] = (0, "", [])
    for pattern in _candidates(depth):
        compiled = re.compile(pattern)
        found = [compiled.fullmatch(text) for text in texts]
        fit = sum(match is not None for match in found)
        if fit <= best[0]:
            continue
        groups = [match.groupdict() for match in found if match]
        if not _plausible(pattern, groups):
            continue
        others = [text for text, match in zip(texts, found, strict=True) if match is None]
        end = r"\." if all("." in path.name for path in files) else "$"
        best = fit, _shown(pattern, groups) + end, others
        if not others:
            break
    fit, pattern, others = best
    if others and 2 * fit > len(texts):
        return "", [
            f"Not guessed from the files' names: most follow '{pattern}', but not "
            f"{listed(map(repr, others), _SHOWN)}. Say what they mean with {spelt('from-name')}."
        ]
    return (pattern, []) if fit and not others else ("", [])


@cache
def _candidates(depth: int) -> tuple[str, ...]:
    """Return the patterns of names in so many folders, those with most groups first."""
    return tuple(_made(depth))


def _made(depth: int) -> Iterator[str]:
    # A class alone is all that is left: of two words, one may be a person.
    for needed in ({"subject"}, {"name", "label"}, {"label"}):
        parts = sorted(
            needed | {"recording", "sensor"} | ({"label"} if "name" not in needed else set())
        )
        for count in range(len(parts), 0, -1):
            for order in itertools.permutations(parts, count):
                if not needed <= set(order):
                    continue
                for slashes in itertools.combinations(range(1, count), depth - 1):
                    yield "".join(
                        ("/" if i in slashes else _BETWEEN if i else "") + _group(part)
                        for i, part in enumerate(order)
                    )


def _group(part: str) -> str:
    return f"(?P<{'subject' if part == 'name' else part}>{_PARTS[part]})"


def _plausible(pattern: str, found: Sequence[Mapping[str, str]]) -> bool:
    """Return whether what was found can be what its groups are called."""
    labels = {one["label"] for one in found if "label" in one}
    activities = bool(labels) and all(map(_is_activity, labels))
    if labels and len(labels) < _FEWEST:
        return False
    numbered = _group("subject") in pattern
    if labels and not numbered and not activities:
        return False  # two words, of which each may be the person
    # Words that are no classes either.
    no_class = SENSORS | DEVICES | PARTS
    if any(set(words(label)) <= no_class for label in labels):
        return False
    people = {one["subject"] for one in found if "subject" in one}
    if not numbered:
        return not any(_is_activity(p) or set(words(p)) & no_class for p in people)
    return True


def _is_activity(label: str) -> bool:
    return any(word.startswith(_ACTIVITIES) for word in words(label))


def _shown(pattern: str, found: Sequence[Mapping[str, str]]) -> str:
    """Return a pattern as somebody would write it, with the words that came alone."""
    for group, part in (("subject", "subject"), ("sensor", "sensor")):
        if _group(part) in pattern:
            starts = sorted({re.sub(r"\d+$", "", one[group]) for one in found})
            own = "|".join(map(re.escape, starts))
            own = f"(?:{own})" if len(starts) > 1 and part == "subject" else own
            own += r"\d+" if part == "subject" else ""
            pattern = pattern.replace(_group(part), f"(?P<{group}>{own})")
    plain = r"(?P<recording>\d+)"
    if all(one.get("recording", "0").isdigit() for one in found):
        pattern = pattern.replace(_group("recording"), plain)
    return f"^{pattern}"
