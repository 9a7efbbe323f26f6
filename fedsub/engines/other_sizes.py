"""Everybody's test with models of sizes that their devices need not have: the papers' "union".

A person's device never sees them; where one process plays all people it costs a test of each size.
"""

import logging
from collections.abc import Mapping

import torch

from fedsub.engines.cohort_grid import resolve_device
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import SplitClient
from fedsub_core.config.capacities import sizes
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.evaluation import Evaluation
from fedsub_core.metrics import MetricRow
from fedsub_core.models.held import why_unfit
from strategies.strategy import PersonalizedStrategy

log = logging.getLogger("fedsub")

#: Metrics that are of each size, and of all sizes' mean.
MEASURED = ("macro_f1", "accuracy", "loss")


def tested_with_sizes(
    config: RunConfig,
    federation: Federation,
    people: Mapping[str, SplitClient],
    strategy: PersonalizedStrategy,
) -> list[MetricRow]:
    """Return how everybody does with the common model of each of the run's ``sizes``.

    Rows are ``macro_f1_of_<size>`` and so on of each person, and ``macro_f1_union``, the mean over
    sizes. Nothing where the option is empty, or the method's server has no models of several sizes:
    where devices hold all, or each has a model of its own.
    """
    asked, card = sizes(config.sizes), strategy.card
    if not (asked and card.weak.sends_all and strategy.half.evaluates_download):
        return []
    round = strategy.finished_rounds
    turn, scaling = strategy.turn(round), strategy.population.agreed.scaling
    clients = [c for c in strategy.population.clients if c in people]
    tested: list[float] = []
    found: list[Evaluation] = []
    for size in asked:
        if why := why_unfit(card, config.wire, strategy.model, size):
            log.warning("sizes: %g is not tested: %s", size, why)
            continue
        parts = [people[client].holding(size) for client in clients]
        settings, device = config.device_settings(card.name), resolve_device(config.device)
        cohort = make_cohort(settings, federation.card, parts, device)
        received = strategy.tested_holding(clients, size)
        everybody = range(len(clients))
        state = cohort.personalised(turn, scaling, everybody, received)
        tested.append(size)
        found.append(cohort.evaluate(turn, scaling, everybody, state))
    rows: list[MetricRow] = []
    if not found:
        return rows
    for name in MEASURED:
        each = torch.stack([getattr(one, name).double().cpu() for one in found])
        columns = {f"{name}_of_{size:g}": one for size, one in zip(tested, each, strict=True)}
        columns[f"{name}_union"] = each.mean(0)
        rows += [
            MetricRow(round, client, None, metric, value)
            for metric, values in columns.items()
            for client, value in zip(clients, values.tolist(), strict=True)
        ]
    return rows
