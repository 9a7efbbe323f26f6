from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation, read_federation
from fedsub_core.data.splits import split
from fedsub_data.inspection.inspection import inspect_federation
from fedsub_data.inspection.timing import inspect_timing


def federation(
    t: ArrayLike | None = None, ids: Sequence[str] = ("a", "b"), **card: Any
) -> Federation:
    x = np.arange(40, dtype=np.float32)[:, None]
    y = np.arange(40) // 20
    clients = {i: ClientData(i, x, y, None if t is None else np.array(t, float)) for i in ids}
    return Federation(Card("f", "t", ("one", "two"), ("f",), **card), clients)


def test_overlap_is_measured_from_times() -> None:
    timing = inspect_timing(federation(np.arange(40) * 5.0, window_s=60.0, overlap=0.92))
    assert timing.known == {"seconds from t": 2}
    assert timing.measured_overlap == pytest.approx(11 / 12)
    assert timing.overlapping_windows == pytest.approx(39 / 40)
    assert timing.auto_split == {"blocked": 2}
    assert timing.warnings == ()


def test_windows_that_only_touch_do_not_overlap() -> None:
    timing = inspect_timing(federation(np.arange(40) * 0.1, window_s=0.1))
    assert (timing.measured_overlap, timing.overlapping_windows) == (0.0, 0.0)
    assert timing.warnings == () and timing.auto_split == {"stratified": 2}


def test_the_order_of_times_in_the_file_does_not_matter() -> None:
    shuffled = np.random.default_rng(0).permutation(40) * 5.0
    timing = inspect_timing(federation(shuffled, window_s=10.0, overlap=0.5))
    assert timing.measured_overlap == pytest.approx(0.5)


def test_a_card_that_forgets_its_overlap_is_told_and_auto_is_not_fooled() -> None:
    timing = inspect_timing(federation(np.arange(40) * 5.0, window_s=10.0))
    assert timing.auto_split == {"blocked": 2}
    (text,) = timing.warnings
    assert "The card says overlap = 0, but the times t of the windows show 0.50" in text


@pytest.mark.parametrize(
    ("t", "card", "known"),
    [
        (np.arange(40.0), {}, "order of t"),
        (None, {"time_ordered": True, "window_s": 1.0}, "order of the file"),
        (None, {"window_s": 1.0}, "unknown"),
    ],
)
def test_without_times_or_a_length_nothing_is_measured(
    t: ArrayLike | None, card: dict[str, Any], known: str
) -> None:
    timing = inspect_timing(federation(t, **card))
    assert timing.known == {known: 2}
    assert timing.measured_overlap is None and timing.overlapping_windows is None


def test_times_in_milliseconds_are_an_order_alone() -> None:
    """Windows of 2 s every second; by their times they would lie 1,000 s apart."""
    timing = inspect_timing(federation(np.arange(40) * 1000.0, window_s=2.0, overlap=0.5))
    assert timing.known == {"order of t": 2} and timing.auto_split == {"blocked": 2}
    assert "Give t in seconds" in timing.warnings[-1] and len(timing.warnings) == 1


def test_times_that_one_client_lacks_are_not_known() -> None:
    both = federation(np.arange(40) * 5.0, window_s=60.0, overlap=0.9)
    one = ClientData("c", both.clients["a"].x, both.clients["a"].y)
    timing = inspect_timing(Federation(both.card, {**both.clients, "c": one}))
    assert timing.known == {"seconds from t": 2, "unknown": 1}
    assert timing.measured_overlap == pytest.approx(11 / 12), "of those who have times"
    assert "1 of 3 people (no t" in timing.warnings[-1]


def test_a_leak_is_told_only_of_those_whom_auto_splits_at_random() -> None:
    """Windows of a and b overlap by their times; c has none, and the card knows no overlap."""
    both = federation(np.arange(40) * 5.0, window_s=10.0)
    at_random = "are divided at random"
    assert not [text for text in inspect_federation(both, 0).warnings if at_random in text]
    third = ClientData("c", both.clients["a"].x + 100, both.clients["a"].y)
    seen = inspect_federation(Federation(both.card, {**both.clients, "c": third}), 0)
    assert seen.timing.auto_split == {"blocked": 2, "stratified": 1}
    (told,) = [text for text in seen.warnings if at_random in text]
    assert "those of 1 of 3 clients (c) are divided at random" in told


@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("ordered", [False, True])
def test_auto_is_what_a_run_does(overlap: float, ordered: bool) -> None:
    made = federation(window_s=1.0, overlap=overlap, time_ordered=ordered)
    client, config = made.clients["a"], RunConfig(split="auto")
    (kind,) = inspect_timing(made).auto_split
    train, test = split(client, made.card, kind, config.test_share, config.seed)
    ran = split_client(client, made.card, config.split_settings)
    assert np.array_equal(ran.train_x, client.x[train])
    assert np.array_equal(ran.test_x, client.x[test])


def test_real_federations(real_data: Path) -> None:
    wesad = inspect_timing(read_federation(real_data / "wesad"))
    assert wesad.measured_overlap == pytest.approx(11 / 12) and wesad.auto_split == {"blocked": 15}
    assert inspect_timing(read_federation(real_data / "wisdm")).warnings == ()
