"""Rows of text that compare methods with each other and with their twin."""

from collections.abc import Sequence

from fedsub.report.comparing import Pair, differences, gains, twin
from fedsub.report.frame import Frame, Grid
from fedsub.report.rows import NONE, Rows
from fedsub_core.metric_names import GAIN
from fedsub_server.twins import IN_WORDS


def beats_twin(frame: Frame, pairs: Sequence[Pair]) -> Rows | None:
    """Return the rows of each method beside its twin: verdict, gain, people who gain and lose."""
    rows, over = [], twin(frame)
    for name, each in gains(frame).items():
        (pair,) = (one for one in pairs if {one.first, one.second} == {name, over})
        sign = 1 if pair.first == name else -1
        ends = NONE
        if pair.judged and pair.low is not None and pair.high is not None:
            low, high = sorted((sign * pair.low, sign * pair.high))
            ends = f"{low:+.3f} to {high:+.3f}"
        more, less = (sum(way * gain > 0 for gain in each.values()) for way in (1, -1))
        rows.append(
            (
                name,
                pair.verdict(name),
                f"{round(sign * pair.difference, 3) + 0.0:+.3f}",
                ends,
                f"{more} of {len(each)}",
                f"{less} of {len(each)}",
            )
        )
    head = ("method", f"against {over}", frame.compared, "95 % interval", "people who gain",
            "who lose")  # fmt: skip
    if not rows:
        return None
    score = frame.compared[0].upper() + frame.compared[1:]
    caption = f"{score} less that of {over} ({IN_WORDS[over]}), mean over the same people"
    return Rows(caption, head, rows, (1,))


def against_twin(frame: Frame, most: int | None = None) -> Rows | None:
    """Return the rows of people who are worse off than with the twin, `most` a method."""
    rows, over = [], twin(frame)
    for name in frame.methods:
        if not over or name == over:
            continue
        round, each = differences(frame, name, over)
        worse = sorted((gain, person) for person, gain in each.items() if gain < 0)
        if each:
            people = ", ".join(f"{person} ({gain:+.3f})" for gain, person in worse[:most])
            more = len(worse) - len(worse[:most])
            share = f"{len(worse)} of {len(each)}, {len(worse) / len(each):.0%}"
            rows.append(
                (name, share, str(round), (people or "nobody") + f" and {more} more" * (more > 0))
            )
    head = ("method", f"worse than {over}", "round", f"who, and by how much {frame.compared}")
    caption = f"People whose {frame.compared} is lower than with {over}" + ", all" * (most is None)
    return Rows(caption, head, rows, (3,)) if rows else None


def against_own(frame: Frame, most: int | None = None) -> Rows | None:
    """Return the rows of people whose device's own model is better or worse beyond noise.

    Devices say by how much, with the interval of a bootstrap over their test samples. Of several
    seeds all are counted, a person in each; None where no method has one.
    """
    rows = []
    for method in frame.methods:
        gain: dict[str, float] = {}
        low: dict[str, float] = {}
        high: dict[str, float] = {}
        round = 0
        for trace in frame.of(method):
            grids = [trace.people.get(name, Grid.of({})) for name in GAIN]
            if not grids[0].rounds:
                continue
            round = grids[0].rounds[-1]
            of = f", seed {trace.repeat}" if len(frame.seeds) > 1 else ""
            for kept, grid in zip((gain, low, high), grids, strict=True):
                kept |= {person + of: value for person, value in grid.at(round).items()}
        if not gain:
            continue
        worse = sorted((gain[person], person) for person, end in high.items() if end < 0)
        better = sum(end > 0 for end in low.values())
        people = ", ".join(f"{person} ({value:+.3f})" for value, person in worse[:most])
        more = len(worse) - len(worse[:most])
        rows.append(
            (
                method,
                f"{sum(gain.values()) / len(gain):+.3f}",
                f"{better} of {len(gain)}, {better / len(gain):.0%}",
                f"{len(worse)} of {len(gain)}, {len(worse) / len(gain):.0%}",
                str(round),
                (people or "nobody") + f" and {more} more" * (more > 0),
            )
        )
    head = ("method", "macro F1", "better beyond noise", "worse beyond noise", "round", "who")
    caption = (
        "Each person's model against the model that this device makes alone, for itself. It trains "
        "that one beside the other, for as many rounds, or solves it from its own samples. It is "
        "not `local`: it may have fewer samples, as some are held back to judge both. A difference "
        "is beyond noise where its 95 % interval over the person's test samples excludes 0; "
        "overlapping windows are drawn together. Chance alone does that for about 3 % of people "
        "in each direction"
    )
    return Rows(caption, head, rows, (5,)) if rows else None


def compared(frame: Frame, pairs: Sequence[Pair], only: str = "") -> Rows:
    """Return two methods a row, and which is better, if the interval says so; `only` one's."""
    rows = []
    for pair in pairs:
        ends = NONE if pair.low is None else f"{pair.low:+.3f} to {pair.high:+.3f}"
        verdict = f"{pair.better} is better" if pair.better else "no difference shown"
        difference = f"{pair.difference:+.3f}"
        rows.append((f"{pair.first} less {pair.second}", difference, ends, verdict, str(pair.n)))
    head = ("methods", frame.compared, "95 % interval", "so", "people")
    caption = f"Mean difference of {frame.compared} over the same people"
    whose = f", {only} and the others" if only else ", every two methods"
    return Rows(caption + whose, head, rows, (3,))
