"""Small files with one fault each, and files that look like one and are none: what people have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
from import_case import NAMED, READ, TEXT, Case, with_columns
from import_label_faults import giveaways, measurements, overlaps, roles
from import_signal_faults import resampling, times, together, units

from tests.fedsub_data.importing.ways_in import recordings


def circles() -> Iterator[Case]:
    """Yield files whose refusal led nowhere."""
    kind = "circles"
    newest = recordings()
    for own in newest.values():
        for name in own:
            own[name] = own[name][::-1]
    yield Case(kind, "newest first", NAMED, newest)
    yield Case(kind, "newest first, rate given", NAMED, newest, ("--rate", "50"))
    yield Case(kind, "newest first, sorted", READ, newest, ("--backwards", "sort"))
    for variant, form, right in (
        ("day-first dates", "{d:%d.%m.%Y %H:%M:%S.%f}", NAMED),
        ("month-first dates", "{d:%m/%d/%Y %H:%M:%S.%f}", NAMED),
        ("dates with a comma", '"{d:%Y-%m-%d %H:%M:%S},{d:%f}"', READ),
        ("dates with a zone", "{d:%Y-%m-%d %H:%M:%S.%f} +0200", READ),
    ):
        yield Case(kind, variant, right, recordings(), (), TEXT, _dated(form))
    made = with_columns(recordings(), empty=lambda p, own: np.nan)
    fill = ("--missing", "interpolate")
    yield Case(
        kind, "a column without a number, filled", NAMED, made, (*fill, "--features", "acc_x,empty")
    )
    yield Case(kind, "sep= before the header", READ, recordings(), ("--delimiter", ";"), TEXT,
               lambda text: '"sep=;"\n' + text.replace(",", ";"))  # fmt: skip
    yield Case(kind, "a row of units", NAMED, recordings(), (), TEXT,
               lambda text: re.sub("\n", "\ns,g,g,g,rad,rad,rad,\n", text, count=1))  # fmt: skip
    late = recordings()
    rng = np.random.default_rng(0)
    for own in late.values():
        for name in own:
            own[name] = np.tile(own[name], 2)
        own["time"] = np.arange(600) * 0.05 + rng.uniform(-0.003, 0.003, 600)
    yield Case(kind, "3 ms of jitter on 50 ms", READ, late, ("--window", "1s"))
    yield Case(kind, "--window 128", NAMED, recordings(), ("--window", "128"))


def _dated(form: str) -> Callable[[str], str]:
    """Return a function that writes the first column, seconds, as dates."""
    import datetime

    noon = datetime.datetime(2025, 5, 9, 12)

    def edit(text: str) -> str:
        head, *lines = text.splitlines()
        made = [head]
        for line in lines:
            seconds, _, rest = line.partition(",")
            when = form.format(d=noon + datetime.timedelta(seconds=float(seconds)))
            made.append(f"{when},{rest}")
        return "\n".join(made) + "\n"

    return edit


KINDS = (times, giveaways, together, resampling, units, roles, overlaps, measurements, circles)


def cases() -> Iterator[Case]:
    """Yield every case, kind by kind."""
    for kind in KINDS:
        yield from kind()
