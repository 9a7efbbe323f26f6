"""Clients of one domain each, where a federation's files are domains: photographs, sketches, ..."""

from dataclasses import dataclass

import numpy as np

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_core.options import option
from fedsub_core.seeds import derive_seed
from fedsub_data.partitions.partition import Partition
from fedsub_data.partitions.pool import IntArray, pooled
from fedsub_data.preparing.preparation import Counts


@dataclass(frozen=True)
class DomainsOptions:
    """Options of :func:`domains`."""

    clients: int = option(
        20, "number of clients, divided among the domains as evenly as possible", minimum=1
    )
    samples: int = option(
        0, "number of samples of each client; 0: all samples of its domain", minimum=0
    )


def domains(
    federation: Federation, options: DomainsOptions, seed: int, counts: Counts
) -> dict[str, ClientData]:
    """Return clients named ``<domain>-000``, ..., that share their domain's samples at random.

    The feature shift of Digit5 and PACS: each client has data of one domain (Li et al., FedBN,
    ICLR 2021). A domain is what was a client before.

    Raises DataError where a domain would have no client, or too few samples for its clients.
    """
    names = list(federation.clients)
    if options.clients < len(names):
        without = ", ".join(names[options.clients :])
        raise DataError(
            f"domains: {options.clients} clients of {len(names)} domains: nobody would hold "
            f"{without}. Set clients to {len(names)} or more, or remove files of domains."
        )
    pool = pooled(federation)
    rng = np.random.default_rng(derive_seed(seed, "", 0, "partition: domains"))
    hands, begin = dict[str, IntArray](), 0
    groups = np.array_split(np.arange(options.clients), len(names))
    for (name, data), members in zip(federation.clients.items(), groups, strict=True):
        rows = begin + rng.permutation(len(data.y))
        begin += len(data.y)
        each = options.samples or len(rows) // len(members)
        if len(rows) < max(2, each) * len(members):
            raise DataError(
                f"domains: {name!r} has {len(rows)} samples; expected {max(2, each)} for each of "
                f"its {len(members)} clients. Choose fewer clients or samples."
            )
        if options.samples:
            rows = rows[: each * len(members)]
        for number, part in enumerate(np.array_split(rows, len(members))):
            hands[f"{name}-{number:03d}"] = part
        counts.add(f"clients of {name}", len(members))
    pool.count_torn(hands.values(), counts)
    return {name: pool.client(name, part) for name, part in hands.items()}


DOMAINS = Partition(
    "domains",
    "every client has samples of one domain, which a file was before (Digit5, PACS)",
    DomainsOptions,
    domains,
)
