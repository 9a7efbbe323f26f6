"""Label skew with clients of one size: a class prior drawn for each client."""

from dataclasses import dataclass

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_core.options import option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.partition import Partition
from fedsub_data.partitions.pool import FloatArray, IntArray, deal, draw, pooled
from fedsub_data.preparing.preparation import Counts

#: What was placed although its client's prior has none of it.
OUTSIDE = "samples beyond their client's prior, which had run out"


@dataclass(frozen=True)
class BalancedOptions:
    """Options of :func:`balanced`; the defaults are FIARSE's and FRAMP's."""

    clients: int = option(100, "number of clients", minimum=1)
    alpha: float = option(
        0.3,
        "concentration of the Dirichlet distribution; small: few classes per client",
        minimum=1e-3,
        maximum=1e6,
    )


def balanced(
    federation: Federation, options: BalancedOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients of one size, each with shares of classes of its own: ``p_j ~ Dir(alpha)``.

    As the commands of Acar et al. (Federated Learning Based on Dynamic Regularization, ICLR 2021)
    do it, which FIARSE (Wu et al., NeurIPS 2024) took over and FRAMP follows. Places are filled
    one by one, in random order, each with a class by its client's prior among the classes that
    are left. There a class that has run out is drawn again and again; here the rest of the prior
    is scaled up, which is the same, and it ends. Of a client whose whole prior has run out the
    rest follows what is left; `counts` says how many. What does not fill a place of everybody is
    left out.

    Raises DataError where there are less than two samples for each client.
    """
    pool = pooled(federation)
    size = len(pool.y) // options.clients
    if size < 2:
        raise DataError(
            f"dirichlet-balanced: {options.clients} clients of at least 2 samples need "
            f"{2 * options.clients}; got {len(pool.y)} samples. Choose fewer clients."
        )
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: dirichlet-balanced"))
    sizes = pool.sizes()
    held = np.flatnonzero(sizes)
    priors = rng.dirichlet(np.full(len(held), options.alpha), options.clients)
    places = rng.permutation(np.repeat(np.arange(options.clients), size))
    table, outside = _filled(priors, sizes[held], places, rng.random(len(places)))
    counts.add(OUTSIDE, outside)
    wanted = np.zeros((options.clients, pool.classes), np.int64)
    wanted[:, held] = table
    return deal(pool, draw(pool, wanted, rng), counts)


def _filled(
    priors: FloatArray, sizes: IntArray, places: IntArray, draws: FloatArray
) -> tuple[IntArray, int]:
    """Return how many of each class each client gets, [clients, classes], and how many by force.

    Parameters
    ----------
    priors : [clients, classes], shares.
    sizes : [classes], samples that there are.
    places, draws : [n], whose turn it is, and a number from 0 to below 1 for each.
    """
    left, table, outside = sizes.copy(), np.zeros(priors.shape, np.int64), 0
    ends = priors.cumsum(axis=1)
    for client, u in zip(places, draws, strict=True):
        row = ends[client]
        if row[-1] <= 0:
            row, outside = left.cumsum(), outside + 1
        label = int(np.searchsorted(row, u * row[-1], side="right"))
        # The product may be rounded up to the whole: then the last class that is left.
        label = min(label, int(np.flatnonzero(left)[-1])) if label == len(row) else label
        table[client, label] += 1
        left[label] -= 1
        if left[label] == 0:
            ends = (priors * (left > 0)).cumsum(axis=1)
    return table, outside


DIRICHLET_BALANCED = Partition(
    "dirichlet-balanced",
    "label skew: clients of one size, a Dirichlet class prior for each (FIARSE, FRAMP)",
    BalancedOptions,
    balanced,
)
