"""What an inspection says in rows of text, for the page, and as tables of the command line."""

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsub_core.data.samples import FEATURES, IMAGE, NODE, TOKENS, WINDOW, Pixels, Tokens
from fedsub_data.inspection.inspection import REMAINDERS, Inspection
from fedsub_data.inspection.timing import counted

Row = tuple[str, ...]
CLASS_HEAD = ("class", "samples", "share", "people", "similarity of people", "Hopkins")
ARRIVAL_HEAD = ("from round", "samples", "clients that gain some")
_CHANNELS = "; compared by each channel's mean and standard deviation"
#: What the numbers of a sample are called, how samples are compared, and what its names are.
_KINDS = {
    FEATURES: ("features", "", "features"),
    WINDOW: ("channels x time", _CHANNELS, "channels"),
    IMAGE: ("channels x pixels", _CHANNELS, "channels"),
    TOKENS: (
        "token ids",
        f"; compared by how often ids have each remainder by {REMAINDERS}",
        "a token is a",
    ),
    NODE: ("features of a node", "", "features"),
}
#: Names of features that are shown at most: papers have thousands of words.
_NAMED = 100


def fact_rows(inspection: Inspection) -> list[Row]:
    """Return the facts on one sample and on windows in time, name and value."""
    card, timing = inspection.card, inspection.timing
    kind, reduced, names = _KINDS[inspection.kind]
    if isinstance(shape := inspection.shape, Tokens):
        kind += f" below {shape.vocabulary:,}, padding {shape.padding}"
        kind += f", {inspection.words:.1f} of them real on average"
    kind += " of bytes" if isinstance(shape, Pixels) else ""
    rate = "" if card.sampling_rate_hz is None else f" at {card.sampling_rate_hz:g} Hz"
    measured, length = timing.measured_overlap, timing.window_s
    derived = "" if card.window_s is not None else ", by its samples and the rate"
    repeated, people = int(inspection.repeated.sum()), int((inspection.repeated > 0).sum())
    stated = "it is unknown" if (known := timing.card_overlap) is None else f"{known:.0%}"
    shown = "" if measured is None else f", their times show {measured:.0%}"
    lonely = f"{inspection.isolated:,} nodes have none" if inspection.edges is not None else ""
    in_time = [
        ("window", "length unknown" if length is None else f"{length:g} s{derived}"),
        ("overlap of windows", f"the card says {stated}{shown}"),
    ]
    return [
        ("one sample", f"{' x '.join(map(str, inspection.shape))} {kind}{rate}{reduced}"),
        (names, _names(card.features)),
        *([("classes", card.explained)] if card.meanings else []),
        ("units", card.units or "not said"),
        *(in_time if inspection.kind in (FEATURES, WINDOW) else ()),
        *([("edges", f"{inspection.edges:,}; {lonely}")] if lonely else []),
        ("time is known as", counted(timing.known)),
        ('split = "auto" chooses', counted(timing.auto_split)),
        ("samples that repeat another", f"{repeated:,} of {people} people" if repeated else "none"),
    ]


def _names(features: tuple[str, ...]) -> str:
    more = len(features) - _NAMED
    return ", ".join(features[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def class_rows(inspection: Inspection) -> list[Row]:
    """Return per class what :data:`CLASS_HEAD` names."""
    samples = inspection.counts.sum(axis=0)
    people = (inspection.counts > 0).sum(axis=0)
    mean_similarity = inspection.mean_similarity
    return [
        (
            name,
            f"{samples[label]:,}",
            f"{samples[label] / samples.sum():.1%}",
            str(people[label]),
            _number(mean_similarity[label]),
            _number(inspection.hopkins[label]),
        )
        for label, name in enumerate(inspection.card.classes)
    ]


def arrival_rows(inspection: Inspection) -> list[Row]:
    """Return per round what :data:`ARRIVAL_HEAD` names; none where all is there from the start."""
    return [(str(a.round), f"{a.samples:,}", str(a.clients)) for a in inspection.arrivals]


def tables(inspection: Inspection) -> Group:
    """Return the tables of the command line, with the warnings below."""
    parts: list[RenderableType] = [_table(CLASS_HEAD, class_rows(inspection))]
    if inspection.arrivals:
        parts.append(_table(ARRIVAL_HEAD, arrival_rows(inspection)))
    parts.extend(Text(f"{name}: {value}") for name, value in fact_rows(inspection)[3:])
    parts.extend(Text(f"Warning: {text}", style="yellow") for text in inspection.warnings)
    return Group(*parts)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(head: Row, rows: list[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for place, title in enumerate(head):
        table.add_column(title, justify="right" if place else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
