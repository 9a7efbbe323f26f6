"""Each person's best round by a validation part, whatever the method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedsub.testing.cover import device, of
from fedsub.testing.runs import RunMethod, WholeRuns, people

BEST: dict[str, Any] = {"best_by": "validation", "rounds": 6, "lr": 0.3}
#: What a person's tested model reaches, by which it can be told from another one.
REACHED_BY = ("macro_f1", "accuracy", "loss")


def crowd() -> Any:
    """Return people whose classes lie so near that their scores go up and down."""
    made = people(samples=16)
    return replace(made, clients={n: replace(c, x=c.x * 0.5) for n, c in made.clients.items()})


class BestRoundTests(WholeRuns):
    """What is tested where a validation part chooses."""

    @of(device)
    def test_a_person_is_tested_with_the_best_model_so_far(
        self, name: str, run_method: RunMethod
    ) -> None:
        run = run_method(name, crowd(), **{**BEST, "rounds": 4, "lr": 0.05})
        chosen, validation = run.metric("best_round"), run.metric("validation_macro_f1")
        assert {chosen[1, c] for c in ("p1", "p2", "p3", "p4")} == {1}
        for (round, client), best in chosen.items():
            if round == 1:
                continue
            before = round - 1, client
            assert validation[round, client] >= validation[before]
            assert best in (round, chosen[before])
            if best == chosen[before]:
                for metric in REACHED_BY:
                    values = run.metric(metric)
                    assert values[round, client] == values[before], (metric, round, client)
