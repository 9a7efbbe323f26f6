"""The form of a transcript's lines: whoever reads one trusts nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from fedsub_core.identifiers import is_client_id
from fedsub_core.secure.keys import KEY_BYTES
from fedsub_core.secure.messages import SESSION_BYTES, TOLD_BYTES, VIEW_BYTES
from fedsub_core.secure.roster import SIGNATURE_BYTES

#: Kinds of entries: the first one; noise that is promised; a sum; noise on what follows from one.
START, PROMISE, SUM, NOISE = "start", "promise", "sum", "noise"

Check = Callable[[object], bool]


def _hex(*sizes: int) -> Check:
    """Return the check of a text that stands for so many bytes."""
    lengths = [2 * size for size in sizes]

    def check(value: object) -> bool:
        return (
            isinstance(value, str)
            and len(value) in lengths
            and not set(value) - set("0123456789abcdef")
        )

    return check


def _list(each: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(each, value))


def _mapping(keys: Check, values: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(map(keys, value)) and all(map(values, value.values()))
    )


def _record(parts: Mapping[str, Check], more: Check | None = None) -> Check:
    """Return the check of a mapping with these keys; other values must be as `more` says."""

    def check(value: object) -> bool:
        if not isinstance(value, dict) or parts.keys() - value.keys():
            return False
        return all(
            parts[key](own) if key in parts else more is not None and more(own)
            for key, own in value.items()
        )

    return check


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _number(value: object) -> bool:
    return isinstance(value, int | float) and isfinite(value) and value > 0


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _draw(value: object) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(map(_number, value))
    return pair and _whole(value[0])  # type: ignore[index]


_HASH, _HASH_OR_NONE, _SESSION = _hex(TOLD_BYTES), _hex(0, TOLD_BYTES), _hex(SESSION_BYTES)
_PLAN = {"round": _whole, "session": _SESSION, "run": _text, "method": _text}
_ENTRIES: Mapping[str, Mapping[str, Check]] = {
    START: {"form": _whole, "run": _text, "method": _text, "key": _HASH},
    PROMISE: {"noise": _mapping(_text, _number), "secret": _HASH},
    SUM: {
        "plan": _record(_PLAN, more=_plain),
        "once": _text,
        "least": _whole,
        "people": _list(_HASH),
        "sent": _mapping(_HASH, _HASH),
        "silent": _list(_HASH),
        "views": _mapping(_HASH, _hex(VIEW_BYTES)),
        "told": _HASH_OR_NONE,
        "sum": _HASH_OR_NONE,
    },
    NOISE: {
        "session": _SESSION,
        "draws": _list(_record({"seed": _HASH, "draws": _list(_draw)})),
    },
}


def is_entry(value: object) -> bool:
    """Whether a value is an entry of a transcript."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _ENTRIES:
        return False
    return _record({"kind": _text, "before": _HASH_OR_NONE, **_ENTRIES[kind]})(value)


def is_person(value: object) -> bool:
    """Whether a value is a person of a sum: id, keys, and their signature or none."""
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and is_client_id(value[0])
        and _hex(3 * KEY_BYTES)(value[1])
        and _hex(0, SIGNATURE_BYTES)(value[2])
    )


are_people: Check = _mapping(_HASH, is_person)
are_seeds: Check = _list(_hex(TOLD_BYTES))
