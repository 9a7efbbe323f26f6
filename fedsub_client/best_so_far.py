"""Each client's best state so far, by the validation part of its training samples.

It lies beside the state that goes on training, under names of its own, so that whatever keeps,
moves or resumes a client's state does the same with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_client.learner import State
from fedsub_core.data.stacks import per_client
from fedsub_core.evaluation import Evaluation

#: What goes before the names of the best state's tensors.
BEST = "best/"
#: Of which round it is, int64 [clients]; and what it reached there, float64 [clients].
ROUND, MACRO_F1, LOSS = "best round", "best macro_f1", "best loss"


def nothing_yet(state: State) -> State:
    """Return the best tensors of clients before the first round was judged."""
    clients = len(next(iter(state.values())))
    return {
        ROUND: torch.zeros(clients, dtype=torch.int64),
        MACRO_F1: torch.full((clients,), torch.nan, dtype=torch.float64),
        LOSS: torch.full((clients,), torch.inf, dtype=torch.float64),
        **{BEST + name: tensor.clone() for name, tensor in state.items()},
    }


def best_tensors(state: State) -> State:
    """Return the tensors of the best round in a state; empty where none is chosen."""
    own = (ROUND, MACRO_F1, LOSS)
    return {n: t for n, t in state.items() if n in own or n.startswith(BEST)}


def better_of(best: State, now: State, judged: Evaluation, round: int) -> State:
    """Return the best tensors after a round in which clients are tested in the state `now`.

    The greater macro F1 counts, of equal ones the smaller loss: few samples know few scores. Of
    equals in both the earlier round stays. Who has no sample to judge by takes the newest.
    """
    macro_f1, loss = judged.macro_f1, judged.loss.nan_to_num(torch.inf)
    better = (macro_f1 > best[MACRO_F1]) | best[MACRO_F1].isnan() | macro_f1.isnan()
    better |= (macro_f1 == best[MACRO_F1]) & (loss < best[LOSS])
    new = {ROUND: torch.full_like(best[ROUND], round), MACRO_F1: macro_f1, LOSS: loss}
    new |= {name: now[name.removeprefix(BEST)] for name in best if name.startswith(BEST)}
    return {
        name: torch.where(per_client(better, old), new[name], old) for name, old in best.items()
    }


def used(state: State) -> State:
    """Return the state whose models are used: the best so far, the newest where none was judged."""
    if ROUND not in state:
        return state
    judged = ~state[MACRO_F1].isnan()
    return state | {
        name.removeprefix(BEST): torch.where(
            per_client(judged, tensor), tensor, state[name.removeprefix(BEST)]
        )
        for name, tensor in state.items()
        if name.startswith(BEST)
    }


def used_round(state: State, i: int, newest: int) -> int:
    """Return the round that the `i`-th client's model in use is of."""
    chosen: Tensor | None = state.get(MACRO_F1)
    return newest if chosen is None or chosen[i].isnan() else int(state[ROUND][i])
