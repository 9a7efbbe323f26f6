"""Metrics of stacks of clients, against scikit-learn and by hand."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score
from torch import Tensor

from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_core.evaluation import evaluate
from fedsub_core.metric_names import UNLABELLED
from fedsub_core.metrics import MOST_CONFUSED, ClientMetrics, MetricRow, confusion_rows


def ragged(seed: int, counts: list[int], classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random clients of the given numbers of samples; each holds a random part of the classes."""
    rng = np.random.default_rng(seed)
    samples = max(counts)
    logits = torch.from_numpy(rng.normal(size=(len(counts), samples, classes))).float()
    y = torch.zeros(len(counts), samples, dtype=torch.int64)
    for i in range(len(counts)):
        held = rng.choice(classes, size=rng.integers(1, classes + 1), replace=False)
        y[i] = torch.from_numpy(rng.choice(held, size=samples))
        # Some classes are never predicted either.
        logits[i, :, rng.random(classes) < 0.3] -= 20
    valid = torch.zeros(len(counts), samples, dtype=torch.bool)
    for i, count in enumerate(counts):
        # Anywhere, not just in front: the mask alone decides.
        valid[i, torch.from_numpy(rng.permutation(samples)[:count])] = True
    return logits, y, valid


@given(
    seed=st.integers(0, 2**32 - 1),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    classes=st.integers(1, 7),
)
def test_equals_scikit_learn_on_every_client(seed: int, counts: list[int], classes: int) -> None:
    logits, y, valid = ragged(seed, counts, classes)
    # Padding holds the worst there is.
    padded, labels = logits.clone(), y.clone()
    padded[~valid], labels[~valid] = torch.nan, -100

    found = evaluate(padded, labels, valid)

    assert found.examples.tolist() == counts
    for i in range(len(counts)):
        truth, z = y[i, valid[i]].numpy(), logits[i, valid[i]].double().numpy()
        guess = z.argmax(1)
        present = np.union1d(truth, guess)
        assert found.macro_f1[i] == pytest.approx(f1_score(truth, guess, average="macro"))
        assert found.weighted_f1[i] == pytest.approx(f1_score(truth, guess, average="weighted"))
        assert found.accuracy[i] == pytest.approx(accuracy_score(truth, guess))
        nll = np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), truth]
        assert found.loss[i] == pytest.approx(nll.mean(), rel=1e-5, abs=1e-6)
        per_class = f1_score(truth, guess, labels=present, average=None)
        assert found.f1[i, present].numpy() == pytest.approx(per_class)
        absent = np.setdiff1d(np.arange(classes), present)
        assert found.f1[i, absent].isnan().all()


def test_numbers_by_hand() -> None:
    # True 0 0 0 1, predicted 0 0 1 2: F1 of 0 is 4/5, of 1 is 0, of 2 is 0; class 3 is absent.
    logits = torch.nn.functional.one_hot(torch.tensor([[0, 0, 1, 2]]), 4).float() * math.log(2)
    y = torch.tensor([[0, 0, 0, 1]])
    (client,) = evaluate(logits, y, torch.ones(1, 4, dtype=torch.bool)).clients()
    assert client.macro_f1 == pytest.approx(0.8 / 3)
    assert client.weighted_f1 == pytest.approx(0.8 * 3 / 4)
    assert client.accuracy == 0.5
    # Softmax of (ln 2, 0, 0, 0) is (2, 1, 1, 1) / 5.
    assert client.loss == pytest.approx((2 * math.log(5 / 2) + 2 * math.log(5)) / 4)
    assert client.f1 == {0: pytest.approx(0.8), 1: 0.0, 2: 0.0}
    assert client.examples == 4


def test_a_class_that_is_only_predicted_lowers_macro_f1() -> None:
    logits = torch.eye(3)[[0, 1, 2]].unsqueeze(0)
    one_class = evaluate(logits, torch.zeros(1, 3, dtype=torch.int64), torch.ones(1, 3).bool())
    assert one_class.f1[0].tolist() == [0.5, 0.0, 0.0]
    assert one_class.macro_f1.item() == pytest.approx(0.5 / 3)


def test_one_class_predicted_throughout_is_perfect() -> None:
    logits = torch.eye(3)[[1, 1]].unsqueeze(0)
    found = evaluate(logits, torch.ones(1, 2, dtype=torch.int64), torch.ones(1, 2).bool())
    assert (found.macro_f1.item(), found.weighted_f1.item(), found.accuracy.item()) == (1, 1, 1)
    assert found.clients()[0].f1 == {1: 1.0}


def test_a_client_alone_gets_the_numbers_it_gets_in_a_stack() -> None:
    logits, y, valid = ragged(3, [5, 17, 30], 4)
    stacked = evaluate(logits, y, valid)
    for i in range(3):
        alone = evaluate(logits[i : i + 1], y[i : i + 1], valid[i : i + 1])
        assert alone.clients() == [stacked.clients()[i]]


def test_a_client_without_samples_gives_nan() -> None:
    logits, y, valid = ragged(1, [4, 6, 8], 3)
    valid[1] = False
    found = evaluate(logits, y, valid)
    for values in (found.macro_f1, found.weighted_f1, found.accuracy, found.loss):
        assert values.isnan().tolist() == [False, True, False]
    assert found.f1[1].isnan().all()
    assert found.clients()[1].f1 == {}


def test_rows_hold_every_metric_once() -> None:
    rows = ClientMetrics(0.1, 0.2, 0.3, 0.4, {0: 0.5, 3: 0.6}, 7).rows(2, "ann")
    assert rows == [
        MetricRow(2, "ann", None, "macro_f1", 0.1),
        MetricRow(2, "ann", None, "weighted_f1", 0.2),
        MetricRow(2, "ann", None, "accuracy", 0.3),
        MetricRow(2, "ann", None, "loss", 0.4),
        MetricRow(2, "ann", None, "examples", 7.0),
        MetricRow(2, "ann", 0, "f1", 0.5),
        MetricRow(2, "ann", 3, "f1", 0.6),
    ]


def test_a_label_beyond_the_model_is_refused() -> None:
    logits, y, valid = torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3)
    y[1, 2] = 4
    with refused(DataError, "position 1", "0 to 4", expected="0 to 3"):
        evaluate(logits, y, valid.bool())


def test_shapes_that_do_not_belong_together_are_refused() -> None:
    y = torch.zeros(2, 5, dtype=torch.int64)
    with pytest.raises(DataError, match=r"got logits \[2, 3, 4\], y \[2, 5\]"):
        evaluate(torch.zeros(2, 3, 4), y, torch.ones(2, 5).bool())


def test_classes_that_a_person_has_not_labelled_have_a_mean_of_their_own() -> None:
    """The first person lacks class 2, the second nothing, the third all that is tested."""
    y = torch.tensor([[0, 1, 2, 2], [0, 1, 0, 1], [2, 2, 1, 1]])
    logits = torch.nn.functional.one_hot(
        torch.tensor([[0, 1, 2, 0], [0, 1, 0, 1], [0, 0, 1, 1]]), 3
    )
    found = evaluate(logits.float(), y, torch.ones_like(y, dtype=torch.bool))
    tested = torch.tensor([[True, True, True], [True, True, False], [False, True, True]])
    trained = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    who = found.with_class_mean(UNLABELLED, tested & ~trained).clients()
    # Class 2: one of two found, none wrongly: 2 / 3. Classes 1 and 2 of the third: 1 and 0.
    means = [one.class_means.get(UNLABELLED) for one in who]
    assert means == [pytest.approx(2 / 3), None, 0.5]
    rows = {row.metric: row.value for row in who[0].rows(1, "ann") if row.label is None}
    assert rows["f1_unlabelled"] == pytest.approx(2 / 3)
    assert rows["macro_f1_unlabelled"] == who[0].macro_f1
    assert not any("unlabelled" in row.metric for row in who[1].rows(1, "bo"))


def test_samples_are_counted_by_true_and_predicted_class() -> None:
    logits, y, valid = ragged(3, [20, 7, 0], 4)
    counted = [one.confusion for one in evaluate(logits, y, valid).clients()]
    for i in range(2):
        here = valid[i]
        wanted = confusion_matrix(y[i, here], logits[i, here].argmax(1), labels=range(4))
        assert counted[i] == {
            (int(a), int(b)): wanted[a, b] for a, b in zip(*np.nonzero(wanted), strict=True)
        }
    assert counted[2] == {}


def test_of_more_classes_than_can_be_read_nothing_is_counted() -> None:
    logits, y = torch.zeros(1, 1, MOST_CONFUSED + 1), torch.zeros(1, 1, dtype=torch.int64)
    (one,) = evaluate(logits, y, torch.ones(1, 1, dtype=torch.bool)).clients()
    assert one.confusion == {} and one.examples == 1


def test_everybody_who_has_a_class_counts_alike_in_its_row() -> None:
    """Of class 0 a half and a fourth are taken for class 1, however many samples somebody has."""
    people = [{(0, 0): 1, (0, 1): 1}, {(0, 0): 3000, (0, 1): 1000, (2, 1): 5}, {}]
    assert sorted(confusion_rows(4, people)) == [
        MetricRow(4, "", 0, "confusion.0", 0.625),
        MetricRow(4, "", 0, "confusion.1", 0.375),
        MetricRow(4, "", 0, "confusion_people", 2),
        MetricRow(4, "", 2, "confusion.1", 1.0),
        MetricRow(4, "", 2, "confusion_people", 1),
    ]
    assert sorted(confusion_rows(4, people[::-1])) == sorted(confusion_rows(4, people))
