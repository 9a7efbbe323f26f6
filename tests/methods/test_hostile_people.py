"""One hostile person ends nobody's run, whatever the method, and bends it little, by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from fedsub.engines.cohort_grid import CohortGrid
from fedsub_client.cohort import Cohort
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Dense, FloatPart, Part

from .method_runs import Run, every_method, people

RunMethod = Callable[..., Run]
MANY, EVIL = 2**48 - 1, "p1"
SIX = people(((0, 1, 2),) * 6, samples=15)
UNBOUND: dict[str, Any] = {"rounds": 10, "robust": "none", "largest_number": 1e3}
#: What is no model: sums and places that are checked by themselves.
OTHERS = ("prototypes", "score", "counts", "gate", "gate.curves", "gains", "shifts")


def reversed_by(factor: float) -> Callable[[Bundle, Bundle], Bundle]:
    """Go the other way by `factor`; say that one has more samples than all others together."""

    def attack(upload: Bundle, received: Bundle) -> Bundle:
        tensors: dict[str, Part] = {}
        for name, part in upload.tensors.items():
            if isinstance(part, FloatPart) and name not in OTHERS and not name.endswith("shares"):
                begun = received.tensors.get(name)
                start = begun.values if isinstance(begun, Dense) else np.float32(0)
                moved = start - factor * (part.values - start)
                part = replace(part, values=np.clip(moved, -1e6, 1e6).astype(np.float32))
            tensors[name] = part
        counts = "counts" in upload.tensors  # they must add up
        return replace(upload, tensors=tensors, examples=upload.examples if counts else MANY)

    return attack


def infect(attack: Callable[[Bundle, Bundle], Bundle]) -> Callable[[CohortGrid], None]:
    """Let one person send something else than it learnt."""

    class Infected(Cohort):
        # A class, no attribute of cohorts: it lasts where clients of some are joined in another.
        def fit(
            self, turn: Turn, scaling: Any, index: Sequence[int], received: Sequence[Bundle]
        ) -> Any:
            uploads, reports = super().fit(turn, scaling, index, received)
            for place, i in enumerate(index):
                if self.clients[i].client == EVIL:
                    uploads[place] = attack(uploads[place], received[place])
            return uploads, reports

    def prepare(grid: CohortGrid) -> None:
        for cohort in grid.cohorts:
            cohort.__class__ = Infected

    return prepare


def others_f1(run: Run) -> float:
    """Return the others' mean macro F1 after the last round."""
    last = run.strategy.finished_rounds
    found = {c: f1 for (r, c), f1 in run.metric("macro_f1").items() if r == last and c != EVIL}
    assert len(found) == 5, found
    return fmean(found.values())


@every_method
@pytest.mark.parametrize("factor", [1.0, 30.0])
def test_the_others_learn_on(name: str, factor: float, run_method: RunMethod) -> None:
    keys: dict[str, Any] = {"rounds": 40 if name == "fedsgd" else 10}  # its rounds are single steps
    honest = others_f1(run_method(name, SIX, **keys))
    run = run_method(name, SIX, prepare=infect(reversed_by(factor)), **keys)
    assert run.strategy.finished_rounds == keys["rounds"]
    refused = {c for (_, c), n in run.metric("refused_replies").items() if n}
    assert refused <= {EVIL}
    assert others_f1(run) > honest - 0.1


def test_where_nothing_bounds_it_the_round_is_undone(run_method: RunMethod) -> None:
    """Without a filter one upload leads all astray; then it is found out and left out."""
    run = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), **UNBOUND)
    assert run.strategy.memory.left_out == {EVIL}
    left = {client for (_, client) in run.metric("left_out")}
    assert left == {EVIL} and len(run.metric("undone")) == 1
    assert others_f1(run) > others_f1(run_method("fedavg", SIX, **UNBOUND)) - 0.1


def test_who_was_left_out_stays_so_when_the_run_goes_on(run_method: RunMethod) -> None:
    whole = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), **UNBOUND)
    until = max(round for (round, _) in whole.metric("undone")) + 2
    part = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), until=until, **UNBOUND)
    again = run_method("fedavg", SIX, after=part, prepare=infect(reversed_by(1e4)), **UNBOUND)
    assert again.strategy.memory.left_out == {EVIL}
    assert others_f1(again) == others_f1(whole)


def test_samples_beyond_those_of_the_handshake_count_as_the_middle(run_method: RunMethod) -> None:
    """p1 has the fewest, the others up to 45 more: what it may add is the median's at most."""
    run = run_method("fedavg", SIX, prepare=infect(reversed_by(1.0)), until=1)
    examples = {client: upload.examples for client, upload in run.uploads[0].items()}
    said = {c: run.strategy.population.facts(c).examples for c in examples}
    assert examples[EVIL] == int(np.median(list(said.values()))) > said[EVIL]
    assert all(examples[c] == said[c] for c in said if c != EVIL)
