"""Pages that are written from cards hold the papers' methods, under their package's name."""

from itertools import pairwise

from fedsub.report.methods import cards_by_package, markdown
from fedsub.report.wire_table import BEGIN, END, wire_tables
from fedsub_core.methods.table import METHODS
from fedsub_core.wire.bundles import Kind
from fedsub_papers.tests.models.test_published import SIZES
from fedsub_papers.tests.wing import WING
from tests.docs.test_events_page import OF_PAPERS, check_part
from tests.docs.test_models_page import check_kinds
from tests.fedsub_core.wire.test_wire_format_methods import MODEL
from tests.fedsub_core.wire.wire_format_page import DOCUMENT, part_of_page


def test_the_wires_page_has_a_table_of_them() -> None:
    found = part_of_page(BEGIN, END)
    assert found == wire_tables(cards_by_package(ours=True)), (
        "renew it: fedsub methods --wire docs/wire-format.md"
    )
    theirs = found.split("From the package `fedsub_papers`:")[1]
    assert all(f"`{name}`" in theirs for name in WING)


def test_the_page_of_all_methods_has_a_table_of_them() -> None:
    page = markdown(cards_by_package())
    table = page.split("From the package `fedsub_papers`:")[1].split("\n## ")[0]
    assert all(f"[`{name}`](#{name})" in table and f"## {name}\n" in page for name in WING)


def test_what_a_layers_inputs_follow_is_as_stated() -> None:
    assert "a layer's weights follow the weights of the layer before it" in DOCUMENT
    before = {f"{name}.weight": f"{first}.weight" for first, name in pairwise(MODEL.layer_names)}
    for card in METHODS.values():
        hyper = card.hyperparameters()
        for declared in (card.sends(MODEL, hyper), card.receives(MODEL, hyper)):
            sliced = {n: one.follows for n, one in declared.items() if one.kind is Kind.SLICED}
            assert all(follows == before.get(name, "") for name, follows in sliced.items())


def test_every_kind_of_tensor_is_some_methods() -> None:
    ours = [(card, card.hyperparameters()) for card in METHODS.values()]
    declared = [d for c, h in ours for d in (c.sends(MODEL, h), c.receives(MODEL, h))]
    assert {one.kind for tensors in declared for one in tensors.values()} == set(Kind)


def test_the_page_of_models_has_their_sizes() -> None:
    check_kinds({kind for kind, *_ in SIZES})


def test_the_page_of_events_has_theirs() -> None:
    rooms = ("client", "strategies", "methods", "models", "preparing", "partitions")
    check_part(OF_PAPERS, [f"fedsub_papers/{room}" for room in rooms])
