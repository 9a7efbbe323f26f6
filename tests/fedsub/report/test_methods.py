"""What is said of a method: how much travels, and the page of all."""

from dataclasses import dataclass, replace

import pytest

from fedsub.report.methods import EXAMPLE, facts, longer_facts, markdown, travels
from fedsub_core.methods.card import Hyperparameters, MethodCard
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import mlp
from fedsub_core.options import option
from fedsub_core.wire.bundles import Declaration, bits, dense, elements, rows

N = 69_638


@dataclass(frozen=True)
class TheirHyperparameters(Hyperparameters):
    """Made up."""

    show_peers: bool = option(False, "people agreed to |this|")


THEIRS = MethodCard(
    "theirs",
    "an idea",
    "A paper, 2020",
    "m:L",
    "m:S",
    TheirHyperparameters,
    needs=("show_peers",),
    fixes_rounds=lambda hyper: hyper.show_peers,
    choose="never.",
    decisions=("One.", "alpha is two."),
)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, "0"),
        ({"a": dense((N,))}, "1.000"),
        ({"a": dense((N // 2,)), "b": dense((N // 2,), optional=True)}, "0.500 to 1.000"),
        ({"a": bits((N,))}, "0.031"),
        # Each number has a bit that says whether it is there, each row of ten one for all.
        ({"a": elements((N,))}, "1.031"),
        ({"a": elements((N,), share=0.2)}, "0.231"),
        ({"a": rows((N // 10, 10))}, "1.003"),
        ({"a": rows((3, 10), optional=True)}, "0.000"),
    ],
)
def test_sizes_are_in_full_models(declared: Declaration, said: str) -> None:
    assert EXAMPLE.full_bytes == 4 * N
    assert travels(declared) == said


def test_the_example_is_the_papers_model() -> None:
    model = mlp(3, 6)
    assert EXAMPLE.parameter_shapes == model.parameter_shapes
    for card in METHODS.values():
        hyper = card.agreed()
        assert card.sends(EXAMPLE, hyper) == card.sends(model, hyper), card.name
        assert card.receives(EXAMPLE, hyper) == card.receives(model, hyper), card.name


def test_what_a_method_needs_is_given_before_it_is_described() -> None:
    said = dict(facts(THEIRS))
    assert said["needs consent"].startswith("refused without theirs.show-peers=true")
    assert said["rounds"].endswith("is fixed for a run"), "so they are once people consented"
    assert said["when to choose it"] == "Never."
    assert "needs consent" not in dict(facts(METHODS["fedavg"]))
    assert "rounds" not in dict(facts(METHODS["fedavg"]))


def test_only_what_a_card_says_is_said() -> None:
    assert [title for title, _ in longer_facts(THEIRS)] == [
        "What it reveals about people",
        "What the paper leaves open, and what is decided here",
    ]
    assert len(longer_facts(replace(THEIRS, decisions=(), errors=("E.",)))) == 2


def test_the_page_has_a_row_and_a_section_for_each() -> None:
    page = markdown({"": [METHODS["fedavg-finetune"]], "theirs 1.0": [THEIRS]})
    assert "\n| [`theirs`](#theirs) | an idea | 1.000 | 1.000 | 1 | trained |\n" in page
    assert "](#fedavg-finetune) | FedAvg, whose" in page and "| 1 + 1 | received |\n" in page
    _, first, second, missing = page.split("\n## ")
    assert missing.startswith("Methods that are not offered\n\n- **")
    assert first.startswith("fedavg-finetune\n\nFedAvg, whose") and first.endswith("|\n")
    assert "\n\nAn idea. A paper, 2020.\n\n- **up**: the model (1.000 models at most)\n" in second
    assert "\n- One.\n- alpha is two.\n" in second
    assert second.endswith(
        "| `theirs.show-peers` | `false` | people agreed to \\|this\\| | true or false |\n"
    )
    prose = [line for line in page.splitlines() if not line.startswith("|")]
    assert max(map(len, prose)) <= 118 and not any(line.endswith(" ") for line in prose)
