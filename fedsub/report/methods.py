"""What is to be known of the methods, from their cards: in lines, and as a page of Markdown."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from fedsub.report.markdown import bullet, markdown_table, paragraph
from fedsub_core.addends import MEANS
from fedsub_core.encoders.names import OF_VECTORS, OF_WINDOWS
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.table import HOUSE, INSTALLED, METHODS, NOT_OFFERED
from fedsub_core.models.architecture import Architecture, FullyConnected, Layers
from fedsub_core.options import Option, describe
from fedsub_core.packages import by_package, in_our_wheel
from fedsub_core.wire.bundles import Declaration, Declared, Kind


def fully_connected(features: int, hidden: Sequence[int], classes: int) -> Layers:
    """Return the layers of a model of so many features, hidden units and classes."""
    sizes = pairwise([features, *hidden, classes])
    layers = (
        FullyConnected(f"linear{i}", units, inputs) for i, (inputs, units) in enumerate(sizes, 1)
    )
    return Layers(tuple(layers), (features,))


#: Of which shares are given: the papers' model for activity recognition, 3-128-512-6.
EXAMPLE = fully_connected(3, (128, 512), 6)
#: What the linear model of a method in closed form sees of such a sample: with 450 random features.
ENCODED = fully_connected(453, (), 6)

_OPENING = (
    "# Methods",
    "`fedsub run --method NAME` trains a method. `--set NAME.KEY=VALUE` sets a hyperparameter. "
    "`fedsub methods NAME` prints the method's section of this page. Results of the methods: "
    "`studies/README.md`. How to add one: `CONTRIBUTING.md`.",
    "Unless a method says otherwise, all devices start from the same model. They train with the "
    "run's optimiser: SGD, lr 0.005, momentum 0.9 that is reset in every phase of every round, "
    "batches of 32, one epoch a round. Means are weighted by training samples and clipped "
    "(`robust`), and everybody takes part in every round.",
    "**up, down**: what a device sends and receives in a round at most, with default "
    "hyperparameters. The unit is one full model of the papers' 3-128-512-6 network (69,638 "
    "numbers, 272 KiB in float32). Masks are included, encodings are not. There are two numbers "
    "where part of it travels only at times. Less may travel: with `fedsub`, devices send about "
    "three quarters of a model and receive little.",
    "**epochs**: what a device computes in a round, in epochs of plain training on its own data; "
    "after the +, what an evaluation adds. **tested**: the model as last received, or as last "
    "trained on the device.",
    "Any method can predict with averages of each person's models over rounds. With "
    "`--set NAME.smooth=0.8`, each average keeps four fifths of its past, so about five rounds "
    "count. It averages the models that are tested: as received at the start of each round in "
    "which the device takes part, or as trained in it. Methods that adapt a model to a person "
    "adapt the average. Training and messages do not change. A person who gets a new class starts "
    "a new average. The average of sparse models has all weights that one of its rounds had. By "
    "default averages are off, because no paper has them; where a method of this project turns "
    "them on, its table says so.",
)


def travels(declared: Declaration) -> str:
    """Return how many full models of the example tensors are, as ``0.231``, or ``0.000 to 1.000``.

    The first number is without tensors that may be left out.
    """
    sizes = [(one.optional, _numbers(one)) for one in declared.values()]
    most = sum(size for _, size in sizes) * 4 / EXAMPLE.full_bytes
    least = sum(size for optional, size in sizes if not optional) * 4 / EXAMPLE.full_bytes
    if not sizes:
        return "0"
    return " to ".join(dict.fromkeys(f"{models:.3f}" for models in (least, most)))


def _numbers(one: Declared) -> float:
    """Return how many float32 numbers a tensor takes at most; a bit is the 32nd part of one."""
    whole = prod(one.shape)
    if one.kind is Kind.BITS:
        return whole / 32
    if one.kind is Kind.WHOLE:
        return whole / 2
    masked = {Kind.DENSE: 0, Kind.ELEMENTS: whole}.get(one.kind, one.shape[0])
    return whole * one.share + masked / 32


def example(card: MethodCard) -> Architecture:
    """Return the model of which a card is asked what travels."""
    return ENCODED if card.training.solves else EXAMPLE


def facts(card: MethodCard) -> list[tuple[str, str]]:
    """Return title and text of what is said of a method in one line each, with its defaults."""
    hyper = card.agreed()
    cost: Cost = card.cost(hyper, 1)
    extra = f", and {_epochs(cost.evaluation)} in an evaluation" if cost.evaluation else ""
    found = [
        ("up", f"{card.up}{_share(card.sends(example(card), hyper))}"),
        ("down", f"{card.down}{_share(card.receives(example(card), hyper))}"),
        ("cost of a round", f"{_epochs(cost.round)}{extra}"),
        ("tested", f"the {hyper.tested} model"),
        ("when to choose it", _capital(card.choose)),
    ]
    if card.training.encodes:
        said = f"auto is {OF_WINDOWS} for windows, {OF_VECTORS} for feature vectors"
        found.append(("encoder", said))
    if card.fixes_rounds(hyper):
        said = "what a round does depends on their number, which is fixed for a run"
        found.append(("rounds", said))
    if card.sums and card.sends(example(card), hyper):
        seen = "means" if card.sums == MEANS else "sums"
        found.append(("secure aggregation", f"available: the server then sees only {seen}"))
        if card.sums == MEANS:
            found.append(("noise on means", "available: dp-noise hides people from others"))
    if card.needs:
        keys = " and ".join(f"{card.name}.{key.replace('_', '-')}=true" for key in card.needs)
        found.append(("needs consent", f"refused without {keys}, which states that people agreed"))
    return [(title, text) for title, text in found if text]


def longer_facts(card: MethodCard) -> list[tuple[str, Sequence[str]]]:
    """Return title and texts of what is said of a method at length."""
    found = [
        ("What it reveals about people", (card.privacy,)),
        ("What the paper leaves open, and what is decided here", card.decisions),
        ("Errors in the paper or in public code", card.errors),
    ]
    return [(title, texts) for title, texts in found if any(texts)]


def as_values(card: MethodCard) -> dict[str, Any]:
    """Return all that is said of a method as plain values, texts by their titles."""
    cost: Cost = card.cost(card.agreed(), 1)
    return {
        "name": card.name,
        "idea": card.idea,
        "paper": card.paper,
        "tested": card.agreed().tested,
        "epochs_of_a_round": cost.round,
        "epochs_of_an_evaluation": cost.evaluation,
        "facts": dict(facts(card)) | {title: list(texts) for title, texts in longer_facts(card)},
        "hyperparameters": [
            {
                "key": f"{card.name}.{one.key}",
                "default": one.default,
                "meaning": one.doc,
                "values": one.expected,
            }
            for one in describe(card.hyperparameters)
        ],
    }


def default(option: Option) -> str:
    """Return an option's default as it is written on the command line."""
    return str(option.default).lower() if option.type is bool else str(option.default)


def meaning(option: Option) -> str:
    """Return an option's meaning, and its choices."""
    return option.doc + (f": {', '.join(option.choices)}" if option.choices else "")


def cards_by_package(ours: bool = False) -> dict[str, list[MethodCard]]:
    """Return cards by the package that offers them, "" the house; `ours`: of its wheel alone."""
    points = {name: p for name, p in INSTALLED.items() if not ours or in_our_wheel(p)}
    names = by_package(HOUSE, points)
    return {package: [METHODS[name] for name in some] for package, some in names.items()}


def markdown(packages: Mapping[str, Sequence[MethodCard]]) -> str:
    """Return the page on cards by package: a table of each, and a section for each card."""
    opening = "\n\n".join(map(paragraph, _OPENING))
    titles = ("method", "idea", "up", "down", "epochs", "tested")
    table: list[str] = []
    for package, cards in packages.items():
        table += [f"\nFrom the package `{package}`:\n"] if package else []
        table += markdown_table(titles, map(_row, cards))
    sections = ("\n".join(_section(card)) for cards in packages.values() for card in cards)
    missing = [bullet(f"**{name}**: {why}.") for name, why in NOT_OFFERED.items()]
    last = "\n".join(["## Methods that are not offered\n", *missing])
    return "\n\n".join([opening, "\n".join(table), *sections, last]) + "\n"


def _row(card: MethodCard) -> tuple[str, ...]:
    hyper = card.agreed()
    cost: Cost = card.cost(hyper, 1)
    evaluation = f" + {cost.evaluation:.3g}" if cost.evaluation else ""
    return (
        f"[`{card.name}`](#{card.name})",
        card.idea,
        travels(card.sends(example(card), hyper)),
        travels(card.receives(example(card), hyper)),
        f"{cost.round:.3g}{evaluation}",
        hyper.tested,
    )


def _section(card: MethodCard) -> Iterator[str]:
    yield f"## {card.name}\n"
    yield f"{paragraph(f'{_capital(card.idea)}. {card.paper}.')}\n"
    for title, text in facts(card):
        yield bullet(f"**{title}**: {text}")
    yield ""
    for title, texts in longer_facts(card):
        if len(texts) == 1:
            yield f"{paragraph(f'**{title}**: {texts[0]}')}\n"
        else:
            yield f"**{title}**:\n"
            yield from map(bullet, texts)
            yield ""
    rows = (
        (
            f"`{card.name}.{o.key}`",
            f"`{default(o)}`",
            meaning(o),
            "" if o.type is str else o.expected,
        )
        for o in describe(card.hyperparameters)
    )
    yield from markdown_table(("hyperparameter", "default", "meaning", "values"), rows)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _epochs(count: float) -> str:
    return f"{count:g} epoch{'' if count == 1 else 's'}"


def _share(declared: Declaration) -> str:
    """Return how many models the tensors are at most, in words."""
    return f" ({travels(declared)} models at most)" if declared else ""
