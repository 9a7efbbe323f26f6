"""What is derived of windows, and where card and file contradict each other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings, how_split
from fedsub_core.data.splits import split, split_kind
from fedsub_core.data.windows import gap_windows, together, window_seconds
from fedsub_core.errors import DataError

CARD = Card("toy", "test", ("a", "b"), ("u",), sampling_rate_hz=50.0)


def raw(t: object = None, n: int = 40, samples: int = 64, name: str = "p") -> ClientData:
    x = np.arange(n * samples, dtype=np.float32).reshape(n, 1, samples)
    seconds = None if t is None else np.asarray(t, np.float64)
    return ClientData(name, x, np.arange(n) % 2, seconds)


def checked(data: ClientData, card: Card) -> ClientData:
    return check_client(Path("p.npz"), "p", data.arrays(), card)


def test_a_raw_windows_length_follows_from_its_samples_and_the_rate() -> None:
    every_8 = raw(np.arange(40) * 0.16)
    assert window_seconds(every_8, CARD) == 1.28
    assert together(every_8, CARD) == 8
    assert split_kind("auto", every_8, CARD) == "blocked"
    assert how_split(every_8, CARD, "blocked") == "in time by t, gap 1.28 s"
    assert window_seconds(every_8, replace(CARD, window_s=1.3)) == 1.3
    assert window_seconds(every_8, replace(CARD, sampling_rate_hz=None)) is None


def test_auto_cuts_in_time_where_times_cannot_show_whether_windows_overlap() -> None:
    features = ClientData("p", np.eye(40, 1, dtype=np.float32), np.arange(40) % 2, np.arange(40.0))
    card = replace(CARD, sampling_rate_hz=None)
    assert split_kind("auto", features, card) == "blocked"
    assert "Whether samples overlap is not known for 1 of 1" in " ".join(
        findings(Federation(card, {"p": features}), "auto")
    )
    milliseconds = raw(np.arange(40) * 1280.0)
    assert split_kind("auto", milliseconds, CARD) == "blocked"
    assert "Give t in seconds" in " ".join(findings(Federation(CARD, {"p": milliseconds}), "auto"))
    apart = raw(np.arange(40) * 1.28)
    assert split_kind("auto", apart, CARD) == "stratified"
    assert findings(Federation(CARD, {"p": apart}), "auto") == []


def test_unknown_overlap_is_split_by_order_unless_times_show_it() -> None:
    """It is not 0 because nobody said it."""
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    table = ClientData("p", x, np.arange(40) % 2)
    card = replace(CARD, sampling_rate_hz=None, overlap=None)
    assert split_kind("auto", table, card) == split_kind("unseen", table, card) == "blocked"
    assert split_kind("auto", table, replace(card, overlap=0.0)) == "stratified"
    assert split_kind("stratified", table, card) == "stratified"
    how = "in time by the order of the file in each class, gap not known"
    assert how_split(table, card, "blocked") == how
    train, test = split(table, card, "blocked", 0.3, 0)
    assert test.tolist() == list(range(28, 40)) and len(train) == 28 and gap_windows(card) == 0
    said = findings(Federation(card, {"p": table}), "auto")
    assert said[0].startswith("Whether samples overlap is not known for 1 of 1 clients (p)")
    assert together(table, card) == 1
    timed = replace(CARD, overlap=None)
    for step, kind in ((0.16, "blocked"), (1.28, "stratified")):
        one = raw(np.arange(40) * step)
        assert checked(one, timed) and split_kind("auto", one, timed) == kind
        assert findings(Federation(timed, {"p": one}), "auto") == []


@pytest.mark.parametrize(
    ("card", "t", "expected"),
    [
        (
            {"window_s": 2.56},
            None,
            r"got windows of 64 samples, expected 128.* window_s \(1\.28",
        ),
        ({"window_s": 1.28, "sampling_rate_hz": 20.0}, None, "expected 25.6, the card's"),
        ({"overlap": 0.5}, np.arange(40) * 0.16, r"a window every 0\.16 s, expected 0\.64 s"),
        ({"overlap": 0.5}, np.arange(40) * 640.0, r"every 640 s, expected 0\.64 s.* t in seconds"),
        ({"overlap": 0.5}, np.arange(40) * 1.28, "a window every 1.28 s"),
        ({"overlap": 0.5, "window_s": 1.28}, np.zeros(40), "a window every 0 s"),
    ],
)
def test_card_and_file_that_contradict_each_other_are_refused(
    card: dict[str, float], t: object, expected: str
) -> None:
    with pytest.raises(DataError, match=expected):
        checked(raw(t), replace(CARD, **card))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("card", "t"),
    [
        ({"window_s": 1.26}, None),  # both ends counted
        ({"overlap": 0.87}, np.arange(40) * 0.16),  # 0.875
        # Windows that were left out, and two devices that record at once.
        ({"overlap": 0.5}, np.cumsum(np.tile([0.64, 1.28, 0.64, 6.4], 10))),
        ({"overlap": 0.5}, np.sort(np.r_[np.arange(20) * 0.64, np.arange(20) * 0.64 + 0.2])),
    ],
)
def test_what_can_be_true_of_both_is_taken(card: dict[str, float], t: object) -> None:
    assert len(checked(raw(t), replace(CARD, **card)).y) == 40  # type: ignore[arg-type]


def test_one_person_without_times_hides_nothing_of_the_others() -> None:
    """Of the same recording, cut every 8 samples: who has no t is divided at random."""
    timed, untimed = raw(np.arange(40) * 0.16, name="a"), raw(name="b")
    said = findings(Federation(CARD, {"a": timed, "b": untimed}), "auto")
    assert len(said) == 2 and "1 of 2 clients (b) are divided at random" in said[0]
    assert "Clients a, b hold the same samples" in said[1]
