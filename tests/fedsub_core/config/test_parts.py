"""Named parts with arguments: what is read, and what is refused by the nearest name."""

from math import inf
from typing import Any

import pytest

from fedsub_core.config.parts import only, part_of, parts, places
from fedsub_core.config.schedules import rate_factor
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.errors import ConfigError


def change(x: int, generator: int, sigma: float = 0.1, *, counts: int = 0) -> tuple[int, float]:
    return x, sigma


def test_parts_have_values_names_words_and_tuples() -> None:
    first, second = parts(
        "jitter(0.1), my.py:f(betas=(0.9, 0.98), how=balanced, on=true)", "augment"
    )
    assert (first.name, first.values, first.named) == ("jitter", (0.1,), ())
    assert dict(second.named) == {"betas": (0.9, 0.98), "how": "balanced", "on": True}
    assert parts("", "augment") == () and only("focal", "loss").plain
    assert places("jitter,my.py:f(1), a.b:g", "augment") == ("my.py:f", "a.b:g")


@pytest.mark.parametrize(
    "text",
    [
        "focal(",
        ")",
        "focal()(2)",
        "focal(a b)",
        "f(**x)",
        "f(a=open('x'))",
        "a,,b",
        "f(1+g())",
        "(1)",
    ],
)
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"loss: got .*expected names with commas"):
        parts(text, "loss")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("change(sgma=1)", "change: unknown argument 'sgma'. Did you mean 'sigma'?"),
        ("change(1, sigma=2)", "unknown argument 'sigma'. It was given twice."),
        ("change(1, 2)", "got 2 arguments, expected at most 1: sigma"),
        ("change(counts=2)", "unknown argument 'counts'"),
        ("chnge", "unknown 'chnge'. Did you mean 'change'?"),
    ],
)
def test_arguments_go_by_the_functions_names(text: str, expected: str) -> None:
    part = only(text, "augment")
    with pytest.raises(ConfigError) as error:
        part.bound(part_of(part, {"change": change}, "augment"), "augment", 2, ("counts",))
    assert expected in str(error.value)
    part = only("change(0.5)", "augment")
    assert part.bound(change, "augment", 2)(1, 2) == (1, 0.5)


def test_schedules_are_factors_of_the_rate() -> None:
    settings = TrainingSettings(lr=2.0, schedule="cosine(5, least=0.5)")
    assert [settings.rate(r) for r in (1, 3, 5, 9)] == pytest.approx([2, 1.5, 1, 1])
    assert [rate_factor("linear(3)", r) for r in (1, 2, 3, 4)] == pytest.approx([1, 0.5, 0, 0])
    assert [rate_factor("steps(at=(2, 4), factor=0.5)", r) for r in (1, 2, 4)] == [1, 0.5, 0.25]
    assert rate_factor("warmup(4),steps(3)", 3) == pytest.approx(0.75 * 0.1)
    plain = TrainingSettings(lr=0.3, lr_decay=0.9)
    assert plain.rate(4) == 0.3 * 0.9**3, "as before there were schedules"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cosine", "cosine: got no rounds"),
        ("steps(at=2, factor=-1)", "which is -1 in round 2"),
        (f"steps(at=2, factor={inf})", "expected"),
        ("warmup(0)", "rounds = 0, expected a whole number"),
        ("warmup(0.5)", "rounds = 0.5, expected a whole number"),
        ("cosine(rounds=-5)", "rounds = -5, expected a whole number"),
        ("cosine(rounds=x)", "expected"),
    ],
)
def test_schedules_refuse_what_makes_no_rate(text: str, expected: str) -> None:
    def rates() -> Any:
        return [rate_factor(text, round) for round in (1, 2)]

    with pytest.raises(ConfigError, match=expected):
        rates()
