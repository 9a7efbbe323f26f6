"""Which tensors each method sends, from the cards: the table of methods in docs/wire-format.md."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fedsub.report.markdown import markdown_table
from fedsub.report.methods import fully_connected
from fedsub_core.errors import ConfigError
from fedsub_core.files import write_whole
from fedsub_core.methods.card import MethodCard
from fedsub_core.models.architecture import Layers, LayerWithUnits
from fedsub_core.wire.bundles import Declaration, Declared

#: Around the table.
BEGIN = "<!-- Written by `fedsub methods --wire docs/wire-format.md` from the methods' cards. -->\n"
END = "<!-- End of what is written. -->\n"


#: Two models of unlike sizes: what has the same number in both depends on no model.
_HIDDEN = (fully_connected(17, (7, 11), 5), fully_connected(19, (23, 13), 3))
_LINEAR = (fully_connected(17, (), 5), fully_connected(19, (), 3))
#: What the size of an axis may be: of any model; of features of an encoder, D of them; of a layer.
_SIZES: Mapping[str, Callable[[Layers], int]] = {
    "classes": lambda model: model.classes,
    "d": lambda model: model.embedding_size,
    "features": lambda model: model.affine[0].fan_in,
}
_ENCODED: Mapping[str, Callable[[Layers], int]] = {
    "classes": lambda model: model.classes,
    "D + 1": lambda model: model.affine[0].fan_in + 1,
    "D + 2": lambda model: model.affine[0].fan_in + 2,
    "triangle": lambda model: (model.affine[0].fan_in + 1) * (model.affine[0].fan_in + 2) // 2,
}
_OF_LAYERS: Mapping[str, Callable[[LayerWithUnits], int]] = {
    "units": lambda layer: layer.units,
    "fan_in": lambda layer: layer.fan_in,
    "fan_in + 1": lambda layer: layer.fan_in + 1,
}


def wire_table(cards: Iterable[MethodCard]) -> str:
    """Return the table: methods that declare the same share a row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for card in cards:
        models, hyper = _LINEAR if card.training.solves else _HIDDEN, card.agreed()
        up, down = (
            _tensors([declare(model, hyper) for model in models], models)
            for declare in (card.sends, card.receives)
        )
        reports = ", ".join(f"`{report}`" for report in card.reports)
        found.setdefault((up, down, reports), []).append(f"`{card.name}`")
    rows = [(", ".join(names), *cells) for cells, names in found.items()]
    return "\n".join(markdown_table(("Methods", "Up", "Down", "`report`"), rows)) + "\n"


def wire_tables(packages: Mapping[str, Iterable[MethodCard]]) -> str:
    """Return the table of each package's methods: "" is the house's, which comes first."""
    return "\n".join(
        (f"From the package `{package}`:\n\n" if package else "") + wire_table(cards)
        for package, cards in packages.items()
    )


def renew_page(page: Path, packages: Mapping[str, Iterable[MethodCard]]) -> None:
    """Write the tables into a page, between its two marks.

    Raises ConfigError if the page has no such marks.
    """
    text = page.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ConfigError(f"{page}: got no table of methods, expected docs/wire-format.md")
    before, rest = text.split(BEGIN)
    write_whole(page, f"{before}{BEGIN}{wire_tables(packages)}{END}{rest.split(END)[1]}".encode())


def _tensors(declared: Sequence[Declaration], models: Sequence[Layers]) -> str:
    """Return in words what is declared of each of two models."""
    # Tensors of a kind, which differ in their layer alone: their names, and that of the layer.
    groups: dict[tuple[str, Declared], list[tuple[str, str]]] = {}
    for name, one in declared[0].items():
        pattern, member = _pattern(name, models[0])
        # How many usually travel is no matter of the wire; what a layer's inputs follow is alike.
        alike = replace(one, shape=(), share=1.0, follows="")
        groups.setdefault((pattern, alike), []).append((name, member))
    told = []
    for (pattern, one), members in groups.items():
        words = [one.kind.value, *(["exact"] if one.exact else [])]
        words += ["optional"] if one.optional else []
        if "<parameter>" not in pattern:
            words.append(f"`[{_shape(members, declared, models)}]`")
        which = _which({member for _, member in members}, models[0]) if "<" in pattern else ""
        told.append(f"`{pattern}`{which} ({', '.join(words)})")
    return "; ".join(told) or "nothing"


def _pattern(name: str, model: Layers) -> tuple[str, str]:
    """Return a tensor's name as it is for any parameter, layer and number; and which it is of."""
    for parameter in model.parameter_shapes:
        if name == parameter or name.endswith(f".{parameter}"):
            before = re.sub(r"\d+", "<k>", name.removesuffix(parameter))
            return f"{before}<parameter>", parameter
    for layer in model.layer_names:
        if name == layer or name.startswith(f"{layer}."):
            return f"<layer>{name.removeprefix(layer)}", layer
    return re.sub(r"\d+", "<k>", name), ""


def _which(members: Collection[str], model: Layers) -> str:
    """Return in words which of the model's parameters or layers these are; "" for all."""
    every, layers = list(model.parameter_shapes), model.layer_names
    words = {
        "": (every, layers),
        " of the body": (model.parameters_of(layers[:-1]), layers[:-1]),
        " that is a weight": ([name for name in every if name.endswith(".weight")],),
        " that is a bias": ([name for name in every if name.endswith(".bias")],),
    }
    for said, names in words.items():
        if any(set(members) == set(some) for some in names):
            return said
    return f" of {', '.join(sorted(members))}"


def _shape(
    members: Sequence[tuple[str, str]], declared: Sequence[Declaration], models: Sequence[Layers]
) -> str:
    """Return in symbols the shape of tensors of a kind; a number of the method's own as it is."""
    known = _ENCODED if models is _LINEAR else _SIZES
    cases = []  # each tensor in each model: its shape, and what symbols stand for
    for name, layer in members:
        for one, model in zip(declared, models, strict=True):
            symbols = {symbol: size(model) for symbol, size in known.items()}
            for own in model.affine:
                if own.name == layer:
                    symbols |= {symbol: size(own) for symbol, size in _OF_LAYERS.items()}
            cases.append((one[name].shape, symbols))
    axes = []
    for axis, size in enumerate(cases[0][0]):
        fits = [s for s in cases[0][1] if all(shape[axis] == own[s] for shape, own in cases)]
        alike = all(shape[axis] == size for shape, _ in cases)
        axes.append(fits[0] if fits else str(size) if alike else "...")
    return ", ".join(axes)
