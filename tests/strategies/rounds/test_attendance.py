"""Who is drawn by attendance: likelier answers more often, and a share for every group."""

from collections import Counter

import pytest

from strategies.rounds.attendance import GROUPS, MOSTLY, RARELY, SOMETIMES, Attendance

PEOPLE = [f"p{number:02d}" for number in range(30)]


@pytest.fixture
def attended() -> Attendance:
    """Twelve rounds: ten people are always there, ten in half of them, ten in two."""
    found = Attendance()
    for round in range(1, 13):
        there = PEOPLE[:10] + PEOPLE[10:20] * (round % 2) + PEOPLE[20:] * (round in (1, 7))
        found.note(round, there, there, [client for client in there if client != "p00"])
    return found


def test_groups_are_by_the_share_of_rounds(attended: Attendance) -> None:
    groups = [attended.group(client, 13) for client in PEOPLE]
    assert groups == [MOSTLY] * 10 + [SOMETIMES] * 10 + [RARELY] * 10
    assert attended.group("somebody new", 13) == MOSTLY


def test_who_never_answers_is_drawn_seldom(attended: Attendance) -> None:
    assert attended.likely("p00") == 1 / 14 and attended.likely("p01") == 13 / 14
    drawn = Counter(
        client
        for seed in range(300)
        for client in attended.drawn(PEOPLE[:10], 3, 13, seed, groups=False)
    )
    assert drawn["p00"] < 30 < 60 < min(drawn[client] for client in PEOPLE[1:10])
    assert sum(drawn.values()) == 900


def test_each_group_has_its_share_as_far_as_it_is_there(attended: Attendance) -> None:
    """Of nine places three are for each third; where one person of a group is there, one."""
    for seed in range(20):
        all_there = attended.drawn(PEOPLE, 9, 13, seed, groups=True)
        assert Counter(attended.group(c, 13) for c in all_there) == dict.fromkeys(GROUPS, 3)
        few = PEOPLE[:20] + PEOPLE[-1:]
        drawn = attended.drawn(few, 9, 13, seed, groups=True)
        assert PEOPLE[-1] in drawn and len(drawn) == 9 and drawn == sorted(drawn)
    seldom = sum(
        PEOPLE[-1] in attended.drawn(PEOPLE[:20] + PEOPLE[-1:], 9, 13, seed, groups=False)
        for seed in range(100)
    )
    assert seldom < 70


def test_it_outlives_the_process_and_forgets(attended: Attendance) -> None:
    again = Attendance.of(attended.tensors())
    assert again == attended and Attendance.of({}) == Attendance() and not Attendance().tensors()
    again.forget("p05")
    assert all("p05" not in counts for counts in vars(again).values())
    assert again.drawn(PEOPLE, 5, 13, 1, True) != []
