"""The twin of a run as a row of a table, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fedsub_server.method_summary import MethodSummary
from fedsub_server.twins import IN_WORDS, LOCAL, OWN

_NUMBERS = ("macro_f1", "macro_f1_ci95", "macro_f1_p10", "weighted_f1", "loss", "clients")


def twin_of(summaries: Sequence[MethodSummary]) -> str | None:
    """Return the twin of a run's methods; None without one."""
    return next((one.twin for one in summaries if one.twin), None)


def own_heads(summaries: Sequence[MethodSummary]) -> MethodSummary | None:
    """Return the summary of people's own heads, as if they were a method; None without any.

    All methods of a run say the same of the same people. Own heads are held against `local`, so it
    is asked first.
    """
    found = [one for one in summaries if one.own_heads_macro_f1 is not None]
    if not found:
        return None
    of = next((one for one in found if one.method == LOCAL), found[0])
    row: dict[str, Any] = {f.name: None for f in fields(MethodSummary)}
    row |= {name: getattr(of, name) for name in ("rounds", "evaluated_round", "people")}
    row |= {name: getattr(of, f"own_heads_{name}") for name in _NUMBERS}
    row |= {"method": OWN, "tested": "alone", "seconds": 0.0}
    return MethodSummary(**row | {"left_out": "", "diverged": "", "by_capacity": {}})


def with_own_heads(summaries: Sequence[MethodSummary]) -> list[MethodSummary]:
    """Return the summaries, with that of people's own heads at the end, if there are any."""
    own = own_heads(summaries)
    return [*summaries, own] if own else list(summaries)


def twin_in_words(summaries: Sequence[MethodSummary]) -> str:
    """Return a sentence on the twin of a run's methods; "" without one."""
    twin, own = twin_of(summaries), own_heads(summaries)
    if twin is None:
        return ""
    words = f"Held against {twin}: {IN_WORDS[twin]}."
    alone = next((one.macro_f1 for one in summaries if one.method == LOCAL), None)
    if alone is not None and own is not None and own.macro_f1 is not None:
        other, less = (LOCAL, alone) if twin == OWN else (OWN, own.macro_f1)
        words += f" {other[0].upper()}{other[1:]}, {IN_WORDS[other]}, reached {less:.3f}."
    return words
