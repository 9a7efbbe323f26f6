"""WESAD (Schmidt et al. 2018): four affective states of 15 people, from a chest or a wrist device.

``chest`` gives the FedSub paper's scenario: windows of 10,000 samples at 700 Hz that overlap by
half, each described by 30 features of ECG and EDA. ``wrist`` gives what a watch could measure:
windows of 60 s that overlap by half, 24 features of pulse, EDA, temperature and motion.

A window lies inside one stretch of one of the protocol's labels 1 to 4; labels 0 and 5 to 7 are
dropped. Overlapping windows share samples, so only a blocked split keeps test and training apart.
"""

import functools
from pathlib import Path

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import ConfigError
from fedsub_core.extras import require
from fedsub_data.preparing.options import WESADOptions
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, each_person
from fedsub_data.preparing.wesad.pickled import PEOPLE, Person, find_people, read_recording
from fedsub_data.preparing.wesad.recording import (
    CLASSES,
    Features,
    Recording,
    Windows,
    featured_windows,
)

#: Seconds: 10,000 samples at 700 Hz on the chest, as in the FedSub paper.
WINDOW_S = {"chest": 10_000 / 700, "wrist": 60.0}
#: Shorter windows hold less than two cycles of respiration and too few beats.
LEAST_WINDOW_S = 10.0


def prepare(source: Path, options: WESADOptions, workers: int, progress: Progress) -> Prepared:
    """Return the windows' features of everybody in `source`, the zip or its unpacked folder.

    Each of the `workers` holds one person's pickle at a time, which takes about 1.1 GB.

    Raises ConfigError where a window is shorter than 10 s, or NeuroKit2 is not installed. Raises
    DataError as :func:`find_people`, :func:`read_recording` and :func:`featured_windows`.
    """
    check(options)
    require("a preparation of wesad", "neurokit2")  # before a gigabyte is read
    people = find_people(source)
    work = functools.partial(_prepared_person, options=options)
    windows = each_person(work, people, workers, progress)
    missing = len(set(PEOPLE) - {person.number for person in people})
    return together([person.number for person in people], windows, options, missing)


def check(options: WESADOptions) -> None:
    """Refuse options that do not fit together, with a ConfigError."""
    if 0 < options.window_s < LEAST_WINDOW_S:
        raise ConfigError(
            f"window-s: got {options.window_s:g}, expected 0 or at least {LEAST_WINDOW_S:g} s: "
            "shorter windows hold too few beats."
        )


def windows_of(recording: Recording, options: WESADOptions) -> Windows:
    """Return the windows of one person's recording, as `options` say."""
    features, names, _ = _device(options.signals)
    window_s = options.window_s or WINDOW_S[options.signals]
    step_s = window_s * (1 - options.overlap)
    return featured_windows(recording, features, names, window_s, step_s)


def together(
    numbers: list[int], windows: list[Windows], options: WESADOptions, missing: int = 0
) -> Prepared:
    """Return the federation of the people with these `numbers` and their `windows`."""
    _, names, units = _device(options.signals)
    card = Card(
        name=f"wesad-{options.signals}",
        task="stress and affect detection",
        classes=tuple(CLASSES.values()),
        features=names,
        units=units,
        window_s=options.window_s or WINDOW_S[options.signals],
        overlap=options.overlap,
        time_ordered=True,
    )
    clients, counts = {}, Counts({"people": len(numbers)})
    if missing:
        counts.add(f"people of {len(PEOPLE)} not found", missing)
    for number, person in zip(numbers, windows, strict=True):
        client = f"{number:02d}"
        clients[client] = ClientData(client, person.x, person.y, person.t)
        counts.merge(person.counts)
    return Prepared(Federation(card, clients), counts)


def _prepared_person(person: Person, options: WESADOptions) -> Windows:
    return windows_of(read_recording(person, options.signals), options)


def _device(signals: str) -> tuple[Features, tuple[str, ...], str]:
    # Imported here: NeuroKit2 takes seconds to load, and only preparing needs it.
    if signals == "chest":
        from fedsub_data.preparing.wesad import chest

        return chest.chest_features, chest.FEATURES, chest.UNITS
    from fedsub_data.preparing.wesad import wrist

    return wrist.wrist_features, wrist.FEATURES, wrist.UNITS
