"""Windows of one moment are on one side of a split."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.splits import split, split_kind
from fedsub_core.data.windows import first_alike
from fedsub_data.inspection.timing import inspect_timing

CARD = Card("toy", "test", ("a", "b"), ("u",), sampling_rate_hz=10.0)


def windows(t: object, same: tuple[tuple[int, int], ...] = ()) -> ClientData:
    """Windows of 2 s at `t`, of which pairs are the same."""
    times = np.asarray(t, np.float64)
    x = np.arange(len(times) * 20, dtype=np.float32).reshape(-1, 1, 20)
    for first, again in same:
        x[again] = x[first]
    return ClientData("p", x, np.arange(len(times)) // 2 % 2, times)


@pytest.mark.parametrize(
    ("t", "same", "expected"),
    [
        ([0, 2, 4, 6], (), None),
        ([0, 0, 2, 2], (), [0, 0, 2, 2]),
        ([0, 2, 4, 6], ((0, 2),), [0, 1, 0, 3]),
        ([0, 0, 2, 2], ((1, 2),), [0, 0, 0, 0]),
        ([0, 2, 0, 4, 2, 4], ((2, 4), (1, 3)), [0, 0, 0, 0, 0, 0]),
        ([5, 5, 5, 5], (), None),  # such times say nothing
    ],
)
def test_copies_and_windows_of_one_time_are_alike(
    t: list[int], same: tuple[tuple[int, int], ...], expected: list[int] | None
) -> None:
    found = first_alike(windows(t, same), CARD)
    assert (None if found is None else found.tolist()) == expected


def test_a_file_that_grows_keeps_moments_on_one_side() -> None:
    client = windows(np.repeat(np.arange(60) * 2.0, 2))
    for sizes in ([120], [61, 120], [30, 61, 120]):
        train, test = split_grown(client, CARD, "stratified", 0.3, 1, sizes)
        assert len(train) + len(test) == 120 and len(test) > 20
        assert client.t is not None
        assert not np.intersect1d(client.t[train], client.t[test]).size


@pytest.mark.parametrize("devices", [2, 12])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_devices_at_once_contradict_no_card(devices: int, overlap: float) -> None:
    card = replace(CARD, window_s=2.0, overlap=overlap)
    client = windows(np.repeat(np.arange(60) * 2.0 * (1 - overlap), devices))
    assert check_client(Path("p.npz"), "p", client.arrays(), card)
    federation = Federation(card, {"p": client})
    assert (
        inspect_timing(federation).measured_overlap == overlap
        and not inspect_timing(federation).warnings
    )
    assert split_kind("auto", client, card) == "blocked"
    # At random windows of one time stay together; those that overlap others do not.
    assert bool(findings(federation, "stratified")) == (overlap > 0)
    for kind in ("stratified", "blocked"):
        train, test = split(client, card, kind, 0.3, 1)
        assert client.t is not None and not np.intersect1d(client.t[train], client.t[test]).size
