"""Each client's best state so far, by the validation part of its training samples.

It lies beside the state that goes on training, under names of its own, so that whatever keeps,
moves or resumes a client's state does the same with it.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from fedsub_client.learner import State
from fedsub_core.data.stacks import per_client
from fedsub_core.pytorch import Tensor, copied, library, zeros

#: What goes before the names of the best state's tensors.
BEST = "best/"
#: Of which round it is, int64 [clients]; and what it reached there, float64 [clients]. The score
#: is the macro F1; of a target it is the negative mean absolute error, kept under the same name.
ROUND, SCORE, LOSS = "best round", "best macro_f1", "best loss"


def nothing_yet(state: State) -> State:
    """Return the best tensors of clients before the first round was judged."""
    clients = len(next(iter(state.values())))
    return {
        ROUND: zeros((clients,), np.int64),
        SCORE: zeros((clients,), np.float64) + np.nan,
        LOSS: zeros((clients,), np.float64) + np.inf,
        **{BEST + name: copied(tensor) for name, tensor in state.items()},
    }


def best_tensors(state: State) -> State:
    """Return the tensors of the best round in a state; empty where none is chosen."""
    own = (ROUND, SCORE, LOSS)
    return {n: t for n, t in state.items() if n in own or n.startswith(BEST)}


def better_of(best: State, now: State, judged: tuple[Tensor, Tensor], round: int) -> State:
    """Return the best tensors after a round in which clients are tested in the state `now`.

    `judged` are scores and losses, each float64 [clients]. The greater score counts, of equal ones
    the smaller loss: few samples know few scores. Of equals in both the earlier round stays. Who
    has no sample to judge by, a score of nan, takes the newest.
    """
    xp = library(judged[0])
    score, loss = judged[0], xp.nan_to_num(judged[1], nan=np.inf)
    better = (score > best[SCORE]) | xp.isnan(best[SCORE]) | xp.isnan(score)
    better |= (score == best[SCORE]) & (loss < best[LOSS])
    new = {ROUND: xp.full_like(best[ROUND], round), SCORE: score, LOSS: loss}
    new |= {name: now[name.removeprefix(BEST)] for name in best if name.startswith(BEST)}
    return {name: xp.where(per_client(better, old), new[name], old) for name, old in best.items()}


def used(state: State) -> State:
    """Return the state whose models are used: the best so far, the newest where none was judged."""
    if ROUND not in state:
        return state
    xp = library(state[SCORE])
    judged = ~xp.isnan(state[SCORE])
    return state | {
        name.removeprefix(BEST): xp.where(
            per_client(judged, tensor), tensor, state[name.removeprefix(BEST)]
        )
        for name, tensor in state.items()
        if name.startswith(BEST)
    }


def used_round(state: State, i: int, newest: int) -> int:
    """Return the round that the `i`-th client's model in use is of."""
    chosen: Tensor | None = state.get(SCORE)
    return newest if chosen is None or isnan(chosen[i]) else int(state[ROUND][i])
