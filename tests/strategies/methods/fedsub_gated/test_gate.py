"""The common gate: sums over people, experts that are dropped, and what a device may say of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsub_core.methods.fedsub_gated import CURVES, GATE, TEMPERATURES
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub_gated.gate import PATIENCE, Gate

NONE = torch.tensor([False, False])


def said(*sums: float) -> Bundle:
    """Return sums for the gate, and curves that prefer no temperature to 1."""
    curves = Floats(np.zeros((2, len(TEMPERATURES)), np.float32))
    return Bundle(10, tensors={GATE: Floats(np.array(sums, np.float32)), CURVES: curves})


def gate_of(*weights: float) -> Gate:
    return replace(Gate.even(2), weights=torch.tensor(weights))


def test_the_weights_are_the_sums_shares() -> None:
    gate = Gate.even(2).updated({"p1": said(3, 1, 4), "p2": said(1, 3, 4)}, most=0)
    assert gate.weights.tolist() == [0.5, 0.5]
    gate = Gate.even(2).updated({"p1": said(6, 2, 8), "p2": said(3, 1, 4)}, most=0)
    assert gate.weights.tolist() == [0.75, 0.25]


def test_without_sums_it_stays() -> None:
    gate = gate_of(0.9, 0.1)
    assert gate.updated({"p1": said(0, 0, 0)}, most=0) is gate


def test_where_few_are_asked_a_round_is_as_small_a_step() -> None:
    gate = gate_of(0.5, 0.5).updated({"p1": said(4, 0, 4)}, most=0, share=0.1)
    assert gate.weights.tolist() == pytest.approx([0.55, 0.45])


def test_who_is_drawn_last_does_not_decide_for_all() -> None:
    """Half of the people are right to believe the first expert, half the second."""
    stream, kept = np.random.default_rng(0), 0
    for _ in range(10):
        gate, ends = Gate.even(2), []
        for round in range(1, 101):
            likely = np.array([0.9, 0.1]) if stream.random() < 0.5 else np.array([0.1, 0.9])
            joint = likely * gate.weights.numpy()
            sums = 10 * joint / joint.sum()
            gate = gate.updated({"p1": said(*sums, 10)}, most=0, share=1 / min(round, 50))
            gate = gate.pruned(round, 100, NONE)
            ends.append(float(gate.weights[0]))
        kept += min(ends[30:]) > 0.2 and max(ends[30:]) < 0.8
    assert kept == 10


def test_nobody_counts_for_more_than_a_bound() -> None:
    uploads = {"p1": said(1, 3, 4), "p2": said(1, 3, 4), "p3": said(1000, 0, 1000)}
    assert Gate.even(2).updated(uploads, most=0).weights[0] > 0.99
    # p3 counts as 4 samples: (1 + 1 + 4) / 12.
    assert Gate.even(2).updated(uploads, most=1).weights[0] == pytest.approx(0.5)


def test_an_expert_that_stays_low_is_dropped_for_ever() -> None:
    gate = gate_of(0.995, 0.005)
    assert gate.pruned(35, 100, NONE) is gate, "nobody has learnt much yet"
    for round in range(36, 36 + PATIENCE - 1):
        gate = gate.pruned(round, 100, NONE)
        assert gate.weights[1] > 0
    back = replace(gate, weights=torch.tensor([0.9, 0.1])).pruned(50, 100, NONE)
    assert back.low.tolist() == [0, 0], "one that comes back is kept"
    gate = gate.pruned(60, 100, NONE)
    assert gate.weights.tolist() == [1.0, 0.0]
    again = gate.updated({"p1": said(1, 3, 4)}, most=0)
    assert again.weights.tolist() == [1.0, 0.0]


def test_one_round_takes_no_expert_all_weight() -> None:
    """Who is at 0 could never come back: that is for who was dropped."""
    gate = Gate.even(2).updated({"p1": said(0, 4, 4)}, most=0)
    assert 0 < gate.weights[0] < 1e-5
    for _ in range(3):
        # Its responsibilities, were it twice as good: sums that double its share.
        share = float(2 * gate.weights[0] / (1 + gate.weights[0]))
        gate = gate.updated({"p1": said(4 * share, 4 - 4 * share, 4)}, most=0)
    assert gate.weights[0] > 5e-6
    nothing = gate.updated({"p1": said(0, 0, 4)}, most=0)
    assert torch.equal(nothing.weights, gate.weights), "samples that nobody explains"


def test_what_others_are_held_against_is_not_dropped() -> None:
    gate, keep = gate_of(0.005, 0.995), ~NONE
    for round in range(40, 60):
        gate = gate.pruned(round, 100, keep)
    assert gate.weights[0] == pytest.approx(0.005)


def judged(first: float, second: float, samples: float = 10.0) -> Bundle:
    """Curves of two experts that rise to a temperature and fall after it."""
    away = np.abs(np.log(np.array(TEMPERATURES)) - np.log([[first], [second]]))
    parts = {GATE: np.array([samples / 2, samples / 2, samples]), CURVES: -samples * away / 10}
    return Bundle(10, tensors={n: Floats(p.astype(np.float32)) for n, p in parts.items()})


def test_temperatures_go_to_what_makes_the_labels_likeliest() -> None:
    gate = Gate.even(2).updated({"p1": judged(4.0, 2.0), "p2": judged(4.0, 2.0)}, most=0)
    torch.testing.assert_close(gate.temperature, torch.tensor([4.0, 2.0]) ** 0.3)
    for _ in range(30):
        gate = gate.updated({"p1": judged(4.0, 1.4), "p2": judged(4.0, 1.4)}, most=0)
    torch.testing.assert_close(gate.temperature, torch.tensor([4.0, 1.4]), atol=1e-3, rtol=1e-3)
    assert gate.updated({"p1": said(0, 0, 0)}, most=0) is gate, "in rounds without judges they stay"


def test_one_with_many_samples_does_not_set_all_temperatures() -> None:
    honest = {f"p{i}": judged(1.0, 1.0) for i in range(5)}
    liar = {"liar": judged(8.0, 8.0, samples=1e6)}
    assert Gate.even(2).updated(honest | liar, most=0).temperature[0] > 1.5
    assert Gate.even(2).updated(honest | liar, most=3).temperature.tolist() == [1.0, 1.0]
