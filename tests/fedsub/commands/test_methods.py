"""`fedsub methods`: what it says of every method in the table."""

import pytest

from fedsub.report.methods import cards_by_package, markdown
from fedsub_core.methods.table import BROKEN, METHODS
from fedsub_core.options import describe

from .calls import Call


@pytest.fixture
def sections(fedsub: Call) -> dict[str, str]:
    """What is said of each method, by its name; line breaks are spaces."""
    code, out, err = fedsub("methods")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    blocks = [" ".join(block.split()) for block in out.strip().split("\n\n")]
    packages = cards_by_package()
    said = [f"From the package {package}" for package in packages if package]
    assert [block for block in blocks if block.startswith("From the package ")] == said
    blocks = [block for block in blocks if block not in said]
    assert [block.split()[0] for block in blocks] == list(METHODS)
    return dict(zip(METHODS, blocks, strict=True))


def test_every_method_is_described_whole(sections: dict[str, str]) -> None:
    for name, card in METHODS.items():
        said, hyper = sections[name], card.agreed()
        assert said.startswith(f"{name} {card.paper} {card.idea} up: {card.up}")
        cost = card.cost(hyper, 1)
        assert f" down: {card.down}" in said
        assert f" cost of a round: {cost.round:g} epoch" in said
        assert (f", and {cost.evaluation:g} epoch" in said) == (cost.evaluation > 0)
        assert f" tested: the {hyper.tested} model when to choose it: " in said
        assert card.choose[1:] in said


def test_every_hyperparameter_is_described_whole(sections: dict[str, str]) -> None:
    for name, card in METHODS.items():
        assert "tested" in {option.key for option in describe(card.hyperparameters)}
        for option in describe(card.hyperparameters):
            default = str(option.default).lower() if option.type is bool else option.default
            values = f": {', '.join(option.choices)}" if option.choices else ""
            assert f" {name}.{option.key} = {default} {option.doc}{values}" in sections[name]


def test_shares_of_the_papers_model(sections: dict[str, str]) -> None:
    assert "up: the model (1.000 models at most) down" in sections["fedavg"]
    assert "up: nothing down: nothing cost" in sections["local"]
    # The head of 3-128-512-6 is 6 * 513 of 69,638 parameters.
    assert "up: the body (0.956 models at most)" in sections["fedper"]
    # All rows, their masks, and beside them 6 scores and 6 prototypes of 3 features.
    assert "(1.002 models at most) down: rows to replace (0.000 to 1.000" in sections["fedsub"]
    assert "cost of a round: 1 epoch tested" in sections["fedsub"]
    assert "rounds: what a round does depends on their number" not in sections["fedsub"]


def test_one_method_is_described_at_length(fedsub: Call) -> None:
    for name, card in METHODS.items():
        code, out, err = fedsub("methods", name)
        assert (code, err) == (0, "")
        text = " ".join(out.split())
        assert text.startswith(f"{name} {card.paper} {card.idea}")
        for words in (card.privacy, *card.decisions, *card.errors):
            assert words in text
        assert all(f" {other}.tested" not in text for other in METHODS if other != name)


def test_an_unknown_method_is_refused(fedsub: Call) -> None:
    code, out, err = fedsub("methods", "dito")
    assert code != 0 and not out and "Did you mean 'ditto'" in err


def test_markdown_is_the_page_and_nothing_else(fedsub: Call) -> None:
    code, out, err = fedsub("methods", "--markdown")
    assert (code, out, err) == (0, markdown(cards_by_package()), "")
    assert fedsub("methods", "ditto", "--markdown")[1] == markdown({"": [METHODS["ditto"]]})


def test_a_method_that_cannot_be_used_is_named(
    fedsub: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BROKEN, "theirs", "its package cannot be loaded: ImportError: x")
    _, out, _ = fedsub("methods")
    assert "theirs not usable: its package cannot be loaded" in " ".join(out.split())
