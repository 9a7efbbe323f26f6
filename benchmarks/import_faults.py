"""Small files with one fault each, and files that look like one and are none: what people have."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from import_case import NAMED, READ, REFUSED, TEXT, WINDOWS, Case, with_columns
from import_signal_faults import resampling, times, together, units

from tests.fedsub_data.importing.ways_in import FRAME, TABLES, WAYS, Recordings, recordings


def giveaways() -> Iterator[Case]:
    """Yield columns that give the class away."""
    kind = "gives the class away"
    code = {"sit": 1.0, "walk": 2.0}

    def codes(person: str, own: dict[str, Any]) -> Any:
        return np.array([code[label] for label in own["activity"]])

    def noisy(person: str, own: dict[str, Any]) -> Any:
        at = np.arange(len(own["activity"])) % 250 == 7
        return np.where(at, 3 - codes(person, own), codes(person, own))

    who = {f"k{i}": float(i) for i in range(1, 9)}
    tall = {person: 150.0 + 7 * number for person, number in who.items()}
    yield Case(kind, "a code of the class", NAMED, with_columns(recordings(), code=codes))
    yield Case(kind, "a code, one in 250 wrong", NAMED, with_columns(recordings(), code=noisy))
    both = with_columns(
        recordings(),
        **{
            "label:SIT": lambda p, own: 2 - codes(p, own),
            "label:WALK": lambda p, own: codes(p, own) - 1,
        },
    )
    yield Case(kind, "other labels", NAMED, both, ("--label", "label:SIT", "--rate", "50"))
    body = with_columns(recordings(), age=lambda p, own: 20 + who[p], weight=lambda p, own: tall[p])
    yield Case(kind, "age, weight", NAMED, body)
    trials = recordings(8)
    for number, own in enumerate(trials.values()):
        own["activity"][:] = ("sit", "walk")[number % 2]
    trials = with_columns(trials, trial=lambda p, own: (who[p] - 1) % 2 + 1)
    yield Case(kind, "a trial's number", NAMED, trials)
    asked = ("--features", "acc_x,code")
    yield Case(
        kind, "a code that is asked for", READ, with_columns(recordings(), code=codes), asked
    )


def roles() -> Iterator[Case]:
    """Yield files and rows that are taken for what they are not."""
    kind = "taken for something else"
    files = tuple(form for form in TABLES if form != FRAME)
    one = recordings(2)
    axes = ("acc_x", "acc_y", "acc_z")
    sensors: Recordings = {}
    for name, person in (("Accelerometer", "k1"), ("Gyroscope", "k2")):
        own = one[person]
        xyz = {axis[-1]: own[axis] for axis in axes}
        sensors[name] = {"time": own["time"] + 1.7e9, **xyz, "activity": own["activity"]}
    yield Case(kind, "sensors as people", REFUSED, sensors, (), files)
    halves = {"X_TRAIN": one["k1"], "X_TEST": one["k2"]}
    yield Case(kind, "TRAIN and TEST as people", NAMED, halves, ("--window", "1s"),
               (*files, "ts", "npz of windows"))  # fmt: skip
    appended: Recordings = {}
    for number in (1, 2, 3):
        four = list(recordings(4, seed=number).values())
        for late, part in enumerate(four):
            part["time"] = part["time"] + 0.005 * late
        appended[f"k{number}"] = {
            name: np.concatenate([part[name] for part in four]) for name in four[0]
        }
    yield Case(kind, "appended recordings, sorted", REFUSED, appended, ("--backwards", "sort"))
    yield Case(kind, "appended recordings, split", READ, appended, ("--backwards", "split"))
    first = recordings()
    for own in first.values():
        del own["time"]
        for name in list(own)[:-1]:
            own[name][:2] = (1.7e9, 50.0)  # when it began, and its rate
    yield Case(kind, "an export's first lines", NAMED, first, ("--rate", "50"))
    typed = recordings()
    for person, words in zip(typed, ("Walk", "WALK", "walk ", "walk"), strict=True):
        labels = typed[person]["activity"]
        labels[labels == "walk"] = words
    yield Case(kind, "classes that differ in case", NAMED, typed, (), WAYS)
    none = recordings()
    for own in none.values():
        own["activity"][:100] = "none"
    yield Case(kind, "'none' is no label", NAMED, none, (), WAYS)


def overlaps() -> Iterator[Case]:
    """Yield features of windows whose overlap nobody said."""
    kind = "overlap unknown"

    def features(timed: bool) -> Recordings:
        made: Recordings = {}
        for person, own in recordings(4).items():
            starts = np.arange(0, 250, 10)
            rows = [own["acc_x"][at : at + 50] for at in starts]
            table = {"acc_mean": np.array([r.mean() for r in rows]),
                     "acc_std": np.array([r.std() for r in rows])}  # fmt: skip
            clock = {"time": own["time"][starts]} if timed else {}
            made[person] = {**clock, **table, "activity": own["activity"][starts]}
        return made

    for variant, timed in (("features without times", False), ("features with times", True)):
        yield Case(kind, variant, NAMED, features(timed), ("--window", "none"))
    yield Case(kind, "windows without times", NAMED, recordings(), (), WINDOWS)


def measurements() -> Iterator[Case]:
    """Yield labels that are measurements."""
    kind = "labels are measurements"
    rng = np.random.default_rng(0)
    numbers = {
        "40 decimals": (REFUSED, np.round(rng.uniform(0, 1, 40), 4)),
        "51 whole numbers": (REFUSED, np.arange(60, 111)),
        "12 decimals": (REFUSED, np.round(np.linspace(0.01, 2, 12), 3)),
        "10 digits": (READ, np.arange(10)),
        "7 codes from 1": (READ, np.arange(1, 8)),
    }
    for variant, (right, values) in numbers.items():
        made = recordings(4)
        for own in made.values():
            drawn = values[np.repeat(rng.permutation(len(values)), 300 // len(values) + 1)[:300]]
            own["activity"] = np.array([str(value) for value in drawn], object)
        few = ("--window", "0.1s") if right == READ else ("--window", "none")
        yield Case(kind, variant, right, made, few)


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
