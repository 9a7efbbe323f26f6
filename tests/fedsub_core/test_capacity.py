"""Who holds which share: whose word comes first, and what is drawn from the run's seed."""

from collections import Counter
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.capacity import Capacity, of_nobody, of_node, of_one, of_people
from fedsub_core.config.capacities import CapacitySettings
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.fingerprint import card_digest
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.seeds import derive_seed

PEOPLE = [f"p{i}" for i in range(1, 9)]
LEVELS = CapacitySettings("1,1/2,1/4,1/8")
TABLE = {"name": "n", "task": "t", "classes": ["a", "b"], "features": ["x"]}


def test_shares_are_drawn_from_the_seed_in_equal_parts_whatever_the_order() -> None:
    held = of_people(LEVELS, 3, None, PEOPLE)
    by_seed = sorted(PEOPLE, key=lambda client: derive_seed(3, client, 0, "capacity"))
    expected = [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert [held[client].share for client in by_seed] == expected
    assert all(not capacity.drawn for capacity in held.values())
    assert of_people(LEVELS, 3, None, PEOPLE[::-1]) == held
    assert of_people(LEVELS, 4, None, PEOPLE) != held
    uneven = Counter(c.share for c in of_people(LEVELS, 0, None, PEOPLE[:6]).values())
    assert sorted(uneven.values()) == [1, 1, 2, 2]
    assert of_people(CapacitySettings("0.5"), 0, None, ["a"]) == {"a": Capacity(0.5)}


def test_who_knows_of_no_others_draws_alone() -> None:
    levels = {of_one(LEVELS, seed, None, "anna").share for seed in range(60)}
    assert levels == {1.0, 0.5, 0.25, 0.125}
    assert of_one(LEVELS, 7, None, "anna") == of_one(LEVELS, 7, None, "anna")
    assert of_one(CapacitySettings("ben=0.5"), 0, None, "anna") == Capacity()


def test_the_device_speaks_before_the_card_and_the_card_before_the_run() -> None:
    run = CapacitySettings("p1=1/8,p2=1/8,p3=1/8")
    held = of_people(run, 0, "p1=1/2,p2=1/4", PEOPLE)
    assert [held[c].share for c in PEOPLE[:4]] == [0.5, 0.25, 0.125, 1.0]
    assert of_one(run, 0, "p1=1/2", "p1") == Capacity(0.5)
    assert {c.share for c in of_people(run, 0, "1/4", PEOPLE).values()} == {0.25}
    assert of_node({"capacity": 0.75}, "p1") == Capacity(0.75)
    assert of_node({}, "p1") is None


@pytest.mark.parametrize("share", [0, 2, -0.5, float("nan"), "1/4", True])
def test_what_a_device_says_of_itself_is_a_share(share: object) -> None:
    with refused(DataError, "client 'p1'", "node config", "capacity", "(0, 1]"):
        of_node({"capacity": share}, "p1")


def test_dynamic_shares_are_drawn_anew_by_client_and_round() -> None:
    held = of_people(CapacitySettings("1,1/2,1/4", "dynamic"), 5, None, PEOPLE)["p1"]
    assert held == Capacity(0.25, (1.0, 0.5, 0.25)) and held.at(5, "p1", 0) == 0.25
    drawn = Counter(held.at(5, "p1", round) for round in range(1, 601))
    assert drawn.keys() == {1.0, 0.5, 0.25} and all(150 < n < 250 for n in drawn.values())
    other = [held.at(5, "p2", round) for round in range(1, 601)]
    assert other != [held.at(5, "p1", round) for round in range(1, 601)]
    named = of_people(CapacitySettings("1,1/2", "dynamic"), 5, "p1=1/8", PEOPLE)
    assert named["p1"] == Capacity(0.125) and named["p2"].drawn == (1.0, 0.5)
    assert of_people(CapacitySettings("1/2,1/2", "dynamic"), 5, None, ["a"])["a"] == Capacity(0.5)


@pytest.mark.parametrize(("run", "card"), [("ana=0.5", None), ("1", "ana=0.5")])
def test_whom_the_data_do_not_have_is_named(run: str, card: str | None) -> None:
    with refused(ConfigError, "capacities", "'anna'", got="client 'ana'"):
        of_people(CapacitySettings(run), 0, card, ["anna", "ben"])
    held = of_people(CapacitySettings(run), 0, card, ["anna", "ben"], known=["ana", "anna", "ben"])
    assert held == dict.fromkeys(["anna", "ben"], Capacity())


@pytest.mark.parametrize(
    ("said", "text"),
    [("1,1/4", "1,1/4"), ({"anna": 0.25, "ben": "1/2"}, "anna=0.25,ben=1/2"), (None, None)],
)
def test_a_card_says_shares_or_a_table_and_is_read_back(said: object, text: str | None) -> None:
    card = parse_card(TABLE | ({} if said is None else {"capacities": said}), Path("c.toml"))
    assert card.capacities == text
    assert parse_card(card_table(card), Path("c.toml")) == card


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"anna": 0}, "capacities: client 'anna': got '0', expected a share"),
        ("2", "capacities: share 1 of '2': got '2', expected a share"),
        (0.5, "capacities: got 0.5, expected a text of shares, or a table"),
        ({"anna": True}, "capacities: client 'anna': got 'True', expected a share"),
    ],
)
def test_a_card_that_says_no_shares_is_refused(said: object, why: str) -> None:
    with pytest.raises(DataError, match=f"c.toml: {why}"):
        parse_card(TABLE | {"capacities": said}, Path("c.toml"))


def test_other_capacities_on_the_card_are_other_data() -> None:
    """So a run does not go on with them; and a card that says nothing has the digest it had."""
    card = Card("n", "t", ("a", "b"), ("x",))
    said = [Card("n", "t", ("a", "b"), ("x",), capacities=text) for text in ("1/2", "1/4")]
    assert len({card_digest(one) for one in (card, *said)}) == 3


def test_what_a_card_says_of_single_people_is_not_for_others() -> None:
    assert (of_nobody(None), of_nobody("1,1/2"), of_nobody("anna=1/2")) == (None, "1,1/2", None)
