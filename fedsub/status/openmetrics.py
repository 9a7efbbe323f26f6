"""A status as OpenMetrics text, which Prometheus and others scrape.

Written out by hand: only gauges without timestamps are needed, which is a line each. Format:
OpenMetrics 1.0, "Text Format".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean

from fedsub.status.facts import KINDS, STATES, Person, Status

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
#: Samples of a metric: its labels and its value; a value of None has no line.
Samples = Iterable[tuple[Mapping[str, str], float | None]]


def metrics_text(status: Status, names: bool = False) -> str:
    """Return the text; nobody is named in it but by `names`."""
    lines: list[str] = []
    for name, unit, meaning, samples in _metrics(status, names):
        found = [(labels, value) for labels, value in samples if value is not None]
        if not found:
            continue
        whole = f"fedsub_{name}_{unit}" if unit else f"fedsub_{name}"
        lines.append(f"# TYPE {whole} gauge")
        if unit:
            lines.append(f"# UNIT {whole} {unit}")
        lines.append(f"# HELP {whole} {_escaped(meaning)}")
        lines += [f"{whole}{_labels(labels)} {float(value)!r}" for labels, value in found]
    return "\n".join([*lines, "# EOF", ""])


def _metrics(status: Status, names: bool) -> Iterator[tuple[str, str, str, Samples]]:
    """Yield each metric's name, unit, meaning and samples."""
    kinds = Counter(trouble.kind for trouble in status.troubles)
    states = Counter(person.state for person in status.people)
    # A service that waits for its next round is well.
    going = status.state in ("going on", "elsewhere", "waiting", "paused")
    finished = status.state == "finished"

    def sample(value: float | None) -> Samples:
        return [({}, value)]

    yield "up", "", "Whether the run goes on.", sample(going)
    yield "finished", "", "Whether all rounds are done.", sample(finished)
    yield "well", "", "Whether there is nothing to look at.", sample(status.verdict.value == 0)
    yield "round", "", "The round that goes on.", sample(status.round)
    yield "rounds_done", "", "The last committed round.", sample(status.finished)
    yield "rounds_wanted", "", "How many rounds there are.", sample(status.rounds)
    yield "run", "seconds", "Time of all rounds so far.", sample(status.seconds)
    yield "left", "seconds", "Estimated time to the run's end.", sample(status.seconds_left)
    yield (
        "last_round",
        "seconds",
        "Time that the last committed round took.",
        sample(status.round_seconds),
    )
    yield "phase", "seconds", "Time in what the round does now.", sample(status.phase_seconds)
    yield "asked", "", "Devices asked in the exchange that goes on.", sample(len(status.asked))
    yield "waited_for", "", "Of these, who has not answered.", sample(len(status.waited_for))
    worse = len(status.worse_than_alone) if status.compared else None
    yield (
        "worse_than_alone",
        "",
        "Devices whose model is worse than the twin that learns from nobody else.",
        sample(worse),
    )
    for score in ("macro_f1", "mae"):
        tested = [n for person in status.people if (n := getattr(person, score)) is not None]
        mean = fmean(tested) if tested else None
        yield score, "", "Mean over devices, of each when it was tested last.", sample(mean)
    yield "sent", "bytes", "Bytes from all devices in the last round.", sample(status.bytes_up)
    yield "received", "bytes", "Bytes to all devices in the last round.", sample(status.bytes_down)
    yield "disk_free", "bytes", "Room where the run's folder lies.", sample(status.disk_free)
    yield "memory", "bytes", "Memory of the server's process.", sample(status.memory)
    left = None if status.certificate_days is None else status.certificate_days * 86_400
    yield "certificate_left", "seconds", "Time to the certificate's end.", sample(left)
    each = [({"state": state}, float(states[state])) for state in STATES]
    yield "people", "", "Devices by what they are.", each
    wrong = [({"kind": kind}, float(kinds[kind])) for kind in KINDS]
    yield "trouble", "", "What somebody should look at, by its kind.", wrong
    if names:
        yield from _of_people(status.people)


def _of_people(people: Iterable[Person]) -> Iterator[tuple[str, str, str, Samples]]:
    people = list(people)
    who = [({"client": person.client, "state": person.state}, 1.0) for person in people]
    yield "person_state", "", "What each device is.", who
    used = [({"client": p.client}, _float(p.usable)) for p in people]
    yield "person_last_usable_round", "", "The round of its last upload that was used.", used


def _float(value: int | None) -> float | None:
    return None if value is None else float(value)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    """Return a text in which no line ends; other control characters are shown, not sent."""
    whole = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(c if c.isprintable() else "?" for c in whole)
