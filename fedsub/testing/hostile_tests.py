"""One hostile person ends nobody's run, whatever the method, and bends it little, by default."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.cover import in_turn, of, server
from fedsub.testing.runs import Run, RunMethod, WholeRuns, people
from fedsub_client.cohort import Cohort
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part

MANY, EVIL = 2**48 - 1, "p1"
SIX = people(((0, 1, 2),) * 6, samples=15)
#: What is no model: sums and places that are checked by themselves.
OTHERS = ("prototypes", "score", "counts", "gate", "gate.curves", "gains", "shifts", "descriptor")


def reversed_by(factor: float) -> Callable[[Bundle, Bundle], Bundle]:
    """Go the other way by `factor`; say that one has more samples than all others together."""

    def attack(upload: Bundle, received: Bundle) -> Bundle:
        tensors: dict[str, Part] = {}
        for name, part in upload.tensors.items():
            if isinstance(part, Floats) and name not in OTHERS and not name.endswith("shares"):
                begun = received.tensors.get(name)
                start = (
                    begun.values
                    if isinstance(begun, Floats) and begun.at.everywhere
                    else np.float32(0)
                )
                moved = start - factor * (part.values - start)
                part = replace(part, values=np.clip(moved, -1e6, 1e6).astype(np.float32))
            tensors[name] = part
        counts = "counts" in upload.tensors  # they must add up
        return replace(upload, tensors=tensors, examples=upload.examples if counts else MANY)

    return attack


def without_numbers(upload: Bundle, received: Bundle) -> Bundle:
    """Send no numbers in place of all numbers."""
    tensors = {
        name: replace(part, values=np.full_like(part.values, np.nan))
        if isinstance(part, Floats)
        else part
        for name, part in upload.tensors.items()
    }
    return replace(upload, tensors=tensors)


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


class HostileTests(WholeRuns):
    """What becomes of the others."""

    #: Enough for all to learn something.
    hostile_rounds = 8

    @of(server)
    @in_turn("times", [-1.0, -30.0])
    def test_the_others_learn_on(self, name: str, times: float, run_method: RunMethod) -> None:
        half = self.hostile_rounds // 2
        keys: dict[str, Any] = {"rounds": self.hostile_rounds, "evaluate_every": half}
        honest = others_f1(run_method(name, SIX, **keys))
        run = run_method(name, SIX, prepare=infect(reversed_by(-times)), **keys)
        assert run.strategy.finished_rounds == keys["rounds"]
        assert {c for (_, c), n in run.metric("refused_replies").items() if n} <= {EVIL}
        assert others_f1(run) > honest - 0.1

    @of(server)
    def test_an_upload_without_numbers_is_refused_and_changes_nothing(
        self, name: str, run_method: RunMethod
    ) -> None:
        honest = run_method(name, SIX, rounds=2, until=1).uploads[0]
        run = run_method(name, SIX, prepare=infect(without_numbers), rounds=2)
        sent = any(isinstance(part, Floats) for part in honest[EVIL].tensors.values())
        refused = {c for (_, c), n in run.metric("refused_replies").items() if n}
        assert refused == ({EVIL} if sent else set())
        # It counts as missing, and the server keeps nothing of it.
        assert run.uploads[0].keys() == honest.keys() - refused
        for tensor in run.states[-1].values():
            assert not tensor.is_floating_point() or not tensor.isnan().any()
        assert run.metric("loss").keys() == {(r, c) for r in (1, 2) for c in SIX.clients}
