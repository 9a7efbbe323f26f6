"""How good clients' personal models are, on their test parts and on their validation parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isnan
from typing import TypeVar

import numpy as np

from fedsub_client.best_so_far import ROUND, SCORE
from fedsub_client.learner import Learner, State
from fedsub_client.scaled_data import ScaledData
from fedsub_client.split_client import SplitClient
from fedsub_core.cores import each
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.data.standardise import Scaling
from fedsub_core.evaluation import Evaluation, evaluate
from fedsub_core.metric_names import LABELLED, NEW, UNLABELLED
from fedsub_core.paired import Gain, paired_gain
from fedsub_core.pytorch import HERE, Tensor, as_numpy, as_tensor, library
from fedsub_core.seeds import derive_seed
from fedsub_core.target_errors import TargetErrors, target_errors
from fedsub_core.turn import Turn

Said = TypeVar("Said")


def on_test_parts(
    learner: Learner,
    data: ScaledData,
    turn: Turn,
    scaling: Scaling | None,
    index: Sequence[int],
    state: State,
    best: State,
) -> Evaluation:
    """Evaluate clients on their test parts.

    Parameters
    ----------
    data : of all clients of a cohort.
    scaling : the federation's.
    index : who of them is tested.
    state : in which they are tested.
    best : their best tensors so far (:mod:`fedsub_client.best_so_far`); empty where the last
        round's model is used.
    """
    clients = [data.clients[i] for i in index]
    train, test, logits = _tested(learner, data, turn, scaling, index, state)
    scores = evaluate(logits, test.y, test.valid)
    classes = logits.shape[2]
    tested = test.holds(classes)
    new = library(tested).zeros_like(tested)
    for row, client in enumerate(clients):
        new[row, client.new_classes(turn.round)] = True
    labelled = train.holds(classes)
    if best:
        scores = replace(scores, best_round=best[ROUND], validation=best[SCORE])
        held = data.validation(scaling).holds(classes)
        labelled = labelled | held[list(index)]
    lacking = tested & ~labelled
    scores = scores.with_class_mean(UNLABELLED, lacking)
    scores = scores.with_class_mean(LABELLED, tested & labelled & lacking.any(1)[:, None])
    scores = scores.with_class_mean(NEW, new)
    alone = _said_of(test, data, partial(learner.predict_alone, state))
    theirs = [own.argmax(2) for own in alone if own is not None]
    if not theirs:
        return scores
    gains = own_gains(test, clients, logits.argmax(2), _joined(theirs), turn)
    return replace(scores, gains=gains)


def on_target(
    learner: Learner,
    data: ScaledData,
    turn: Turn,
    scaling: Scaling | None,
    index: Sequence[int],
    state: State,
    best: State,
    half: float,
) -> list[TargetErrors]:
    """Return clients' errors on their test parts, of a target with `half` a range in its unit.

    Parameters are :func:`on_test_parts`'s.
    """
    _, test, outputs = _tested(learner, data, turn, scaling, index, state)
    found = target_errors(outputs, test.y, test.counts, half)
    if not best:
        return found
    chosen = zip(found, best[ROUND].tolist(), best[SCORE].tolist(), strict=True)
    return [
        replace(one, best_round=round, validation_mae=None if isnan(score) else -score)
        for one, round, score in chosen
    ]


def _tested(
    learner: Learner,
    data: ScaledData,
    turn: Turn,
    scaling: Scaling | None,
    index: Sequence[int],
    state: State,
) -> tuple[Stack, Stack, Tensor]:
    """Return clients' training and test parts, and the outputs for the samples of the latter."""
    train, test = data.at(turn.round, scaling)
    if not data.are_all(index):
        train, test = train.select(index), test.select(index)
    return train, test, _joined(_said_of(test, data, partial(learner.predict, state)))


def on_validation_parts(
    learner: Learner,
    data: ScaledData,
    scaling: Scaling | None,
    index: Sequence[int],
    state: State,
    half: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return scores and losses of clients on what is held back of their training parts.

    Each is float64 [clients]: macro F1, or of a target with `half` a range the negative MAE; nan
    without a sample. Parameters are :func:`on_test_parts`'s.
    """
    held = data.validation(scaling)
    held = held if data.are_all(index) else held.select(index)
    outputs = _joined(_said_of(held, data, partial(learner.predict, state)))
    if half is None:
        judged = evaluate(outputs, held.y, held.valid)
        return judged.macro_f1, judged.loss
    each = target_errors(outputs, held.y, held.counts, half)
    # A model that diverged is worse than any other: nan is who has no sample.
    scores = [-inf if isnan(one.mae) and one.examples else -one.mae for one in each]
    both = as_tensor(np.array([scores, [one.loss for one in each]]))
    score, loss = both.to(outputs.device) if HERE else both
    return score, loss


def _said_of(stack: Stack, data: ScaledData, predict: Callable[[Tensor], Said]) -> list[Said]:
    """Return the predictions of a stack's samples, in blocks that are tested at a time."""
    # A graph is seen whole.
    size = stack.x.shape[1] if stack.context else data.tested_at_a_time
    blocks = [stack.x[:, start : start + size] for start in range(0, stack.x.shape[1], size)]
    return each(lambda block: predict(inputs(block, stack.scale)), blocks)


def _joined(blocks: Sequence[Tensor]) -> Tensor:
    """Return blocks of samples, each ``[clients, samples, ...]``, one after another."""
    joined: Tensor = library(blocks[0]).concatenate(blocks, 1)
    return joined


def own_gains(
    test: Stack, clients: Sequence[SplitClient], ours: Tensor, theirs: Tensor, turn: Turn
) -> list[Gain | None]:
    """Return each client's gain of predictions `ours` over `theirs`; None without samples.

    Parameters
    ----------
    test : the samples that were predicted.
    clients : whose they are, in the order of `test`.
    ours, theirs : int64 [clients, samples].
    turn : of the test, which the resamples' seed is derived from.
    """
    gains: list[Gain | None] = []
    for i, (client, count) in enumerate(zip(clients, test.counts, strict=True)):
        y, first, second = (as_numpy(t[i, :count]) for t in (test.y, ours, theirs))
        if client.t is not None and count:
            order = np.argsort(client.t[client.test[:count]], kind="stable")
            y, first, second = y[order], first[order], second[order]
        seed = derive_seed(turn.seed, client.client, turn.round, "gain")
        gains.append(paired_gain(y, first, second, seed, client.together) if count else None)
    return gains
