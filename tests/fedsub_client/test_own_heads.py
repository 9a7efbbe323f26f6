"""What people's own heads reach, beside any method."""

from typing import Any

import numpy as np
import pytest

from fedsub.testing.cohort_tests import SCALING, cohort, people, turn
from fedsub_client import own_heads
from fedsub_client.cohort_messages import NOTHING
from fedsub_client.own_heads import own_encoder
from fedsub_core.closed_form.personal import head_alone
from fedsub_core.config.run_config import read_config
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.metric_names import OWN_HEADS


def reached(method: str, clients: Any, index: list[int] | None = None) -> list[Any]:
    """Return what clients say after a first round of a method."""
    some, who = cohort(method, clients), list(range(len(clients))) if index is None else index
    some.fit(turn(1), SCALING, who, [NOTHING] * len(who))
    state = some.personalised(turn(1), SCALING, who, [NOTHING] * len(who))
    return some.evaluate(turn(1), SCALING, who, state).clients()


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_heads, "_kept", {})


def test_every_method_hears_what_own_heads_reach() -> None:
    """They are those of the closed form before any sums came, which its people then use."""
    solved = reached("fedsub-ridge", people())
    for method in ("local", "fedsub", "fedavg", "ditto"):
        own_heads._kept.clear()
        for one, other in zip(reached(method, people()), solved, strict=True):
            assert list(one.own_heads) == list(OWN_HEADS)
            assert one.own_heads == other.own_heads
            assert one.own_heads["own_heads_macro_f1"] == pytest.approx(other.macro_f1)
            assert one.own_heads["own_heads_loss"] == pytest.approx(other.loss, rel=1e-5)


def test_others_do_not_matter() -> None:
    everybody = [one.own_heads for one in reached("local", people())]
    own_heads._kept.clear()
    (second,) = reached("local", people(), [1])
    own_heads._kept.clear()
    (alone,) = reached("local", people()[2:])
    assert second.own_heads == everybody[1] and alone.own_heads == everybody[2]


def test_a_head_is_solved_once_for_all_rounds_and_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(x: Any, *args: Any, **given: Any) -> Any:
        calls.append(len(x))
        return head_alone(x, *args, **given)

    monkeypatch.setattr("fedsub_client.own_heads.head_alone", counted)
    some = cohort("local", people())
    for round in (1, 2):
        some.evaluate(turn(round), SCALING, [0, 1, 2], some.state)
    other = cohort("fedavg", people())
    other.evaluate(turn(1), SCALING, [0, 1, 2], other.state)
    assert len(calls) == 3
    other.evaluate(turn(1), None, [0, 1, 2], other.state)
    assert len(calls) == 6, "standardised otherwise"


def test_whoever_has_more_samples_than_are_solved_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_heads, "MOST_SAMPLES", 40)
    some = people()
    found = [bool(one.own_heads) for one in reached("local", some)]
    assert found == [len(one.train_y) <= 40 for one in some] and True in found and False in found


@pytest.mark.parametrize(
    "shape", [(3, 32, 32), (3, 8), Tokens((20,), 100, 0), Nodes((40,)), (10_000,)]
)
def test_pictures_texts_graphs_and_what_is_too_short_or_wide_have_none(shape: Any) -> None:
    assert own_encoder("auto", 0, shape) is None


def test_a_run_without_an_encoder_has_own_heads_all_the_same() -> None:
    for text, features in (("auto", 554), ("none", 554), ("kernels:7", 35)):
        encoder = own_encoder(text, 0, (3, 64))
        assert encoder is not None and encoder.features == features
    given = read_config(None, {"method": "local", "encoder": "none"})
    assert given.device_settings("local").encoder == "none"
    vectors = own_encoder("none", 0, (18,))
    assert vectors is not None and vectors.encode(np.zeros((1, 18), np.float32)).shape == (1, 468)
