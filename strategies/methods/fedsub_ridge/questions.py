"""What the server of sums asks people for, what their sums answer, and what it knows of each.

First how many people have each class, then statistics of the classes that enough people have, then
equations of their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.closed_form import summing
from fedsub_core.method_parts.ridge_tensors import ASKED, OF_CLASSES, POOLED, candidates
from fedsub_core.methods.fedsub_ridge import FedSubRidgeHyperparameters
from fedsub_core.wire.bundles import Floats, Part
from strategies.methods.fedsub_ridge.everybody import by_features
from strategies.methods.fedsub_ridge.everybody import noted as sums_noted
from strategies.methods.fedsub_ridge.people import key
from strategies.methods.fedsub_ridge.release import VERSIONS, name_of
from strategies.rounds.context import Opened
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

#: Of each person: :class:`Member`. How many people had each class when it was asked last, int64
#: [classes]. Of the sum that says it: its round, how many people it was of; and how many who had
#: said what they have were missed in a sum of statistics since then. Of which sums the pooled
#: equations are.
MEMBER, ASKED_LAST, COUNTED, ANSWERED = "member", "holders", "counted", "answered"
#: Of those in the sums, as they were asked, how many have each class; then how many people these
#: are, int64 [classes + 1].
INCLUDED = "holders.included"
#: In place of a round: whoever's statistics were in a sum of no use are not asked for them again.
SPENT = -1


@dataclass(frozen=True)
class Member:
    """What the server knows of a person.

    Parameters
    ----------
    counted : in which round's sum of classes the person was last; 0: in none.
    round : in which round's sum of statistics it was; 0: in none; ``SPENT``: in one of no use.
    weight : as how many samples it counts there at most.
    sent : version of all that it has of the server's.
    classes : of which classes its samples are in the sums, bool [classes].
    """

    counted: int
    round: int
    weight: int
    sent: int
    classes: NDArray[np.bool_]


def member(state: State, client: str) -> Member:
    """Return the facts of a person; a stranger is in no sum."""
    kept = state.get(key(MEMBER, client))
    if kept is None:
        return Member(0, 0, 0, 0, np.zeros(len(state[ASKED_LAST]), np.bool_))
    counted, round, weight, sent, *classes = kept.tolist()
    return Member(counted, round, weight, sent, np.array(classes, np.bool_))


def noted(client: str, one: Member) -> State:
    """Return the part of the state that :func:`member` reads."""
    known = [one.counted, one.round, one.weight, one.sent, *map(int, one.classes)]
    return {key(MEMBER, client): torch.tensor(known)}


@dataclass(frozen=True)
class Question:
    """What a round asks for.

    Parameters
    ----------
    kind : :mod:`fedsub_core.closed_form.summing`'s.
    clients : of whom.
    classes : of which classes statistics are, bool [classes].
    opened_of : :class:`SumRequest`'s.
    """

    kind: int
    clients: tuple[str, ...]
    classes: NDArray[np.bool_]
    opened_of: int = 0

    def parts(self) -> dict[str, Part]:
        """Return the part of a download that asks for a person's part in a sum."""
        kind, classes = np.array([self.kind], np.float32), self.classes.astype(np.float32)
        return {ASKED: Floats(kind), OF_CLASSES: Floats(classes)}


def asked_in(round: Round) -> Question | None:
    """Return the question of a round; None: nothing is asked for."""
    return None if round.requested is None else round.requested.detail


def question(
    state: State, round: Round, clients: Sequence[str], least: int, pools: bool
) -> Question | None:
    """Return the next question; None: nothing is owed, or by too few.

    Parameters
    ----------
    least : fewest people of a sum.
    pools : whether people are asked for equations.
    """
    of_sums, every = int(state[VERSIONS][0]), np.ones(round.model.classes, np.bool_)
    # Sums of fewer features would be of whoever has as few, which may be one person. And all who
    # add equations up are sent the same sums.
    features = prod(round.model.input_shape)
    whole = [c for c in clients if prod(round.held_by(c).input_shape) == features]
    if pools and of_sums not in (0, int(state[ANSWERED])) and len(whole) >= least:
        return Question(summing.EQUATIONS, tuple(whole), every)
    owing = [c for c in whole if not member(state, c).round]
    if (of_sums or not owing) and len(owing) < least:
        return None  # where everybody's statistics were of no use, people have their own heads
    counted, people, missed = state[COUNTED].tolist()
    ready = [c for c in owing if counted and member(state, c).counted == counted]
    # Each of those who were counted and are not there may have had any class.
    sure = state[ASKED_LAST].numpy() - (people - len(ready))
    classes = sure >= least + missed
    if len(ready) < least or not classes.any():
        return Question(summing.CLASSES, tuple(owing), every)
    may_lack = int(sure[classes].min()) - least
    return Question(summing.STATISTICS, tuple(ready), classes, len(ready) - may_lack)


def answered(
    state: State, round: Round, opened: Opened, hyper: FedSubRidgeHyperparameters
) -> State:
    """Return the part of the state that follows from an opened sum.

    Raises ValueError if nobody's samples can have led to it.
    """
    asked, clients, total = asked_in(round), opened.clients, opened.total
    assert asked is not None and total is not None
    if asked.kind == summing.CLASSES:
        return {
            ASKED_LAST: torch.from_numpy(summing.classes_in(total, len(clients))),
            COUNTED: torch.tensor([round.number, len(clients), 0]),
        }
    pooled, of_sums, found = state[POOLED], int(state[VERSIONS][0]), State()
    if asked.kind == summing.EQUATIONS:
        levels, classes = opened.levels, round.model.classes
        rounded = len(clients) * levels.range / levels.each / 2
        mean = summing.equations_in(total, candidates(hyper), classes, rounded)
        pooled = torch.from_numpy(mean)
    else:
        features = prod(round.model.input_shape)
        new = summing.statistics_in(total, features, round.model.classes, len(clients))
        sums = by_features(state)[features] + new
        of_sums, found = name_of(sums.gram, sums.cross), sums_noted(sums, features)
        held = state[ASKED_LAST] * torch.from_numpy(asked.classes)
        found[INCLUDED] = state[INCLUDED] + torch.cat([held, state[COUNTED][1:2]])
        for client in clients:
            found |= noted(client, replace(member(state, client), round=round.number))
    # With noise equations are not asked for.
    of_all = of_sums if hyper.noise else name_of(np.array(of_sums), pooled.numpy())
    return found | {POOLED: pooled, VERSIONS: torch.tensor([of_sums, of_all])}
