"""The handshake: the server asks who is there, until enough fit together to begin or go on."""

from __future__ import annotations

import logging
import time
from collections import Counter

from fedsub_core.config.settings import RoundSettings
from fedsub_core.data.splits import unseen_clients
from fedsub_core.data.standardise import median_pool, pool, scaling
from fedsub_core.errors import RunError, cut
from strategies.rounds.agreement import Agreement
from strategies.rounds.delivery import POLL_SECONDS
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry

log = logging.getLogger("fedsub")

#: What clients must agree on: names of the classes, shape of a sample.
Kind = tuple[tuple[str, ...], tuple[int, ...]]


#: How clients' moments make the federation's, by what `standardise` says.
POOLS = {"federation": pool, "federation-median": median_pool}


def agree(
    link: Link, registry: NodeRegistry, settings: RoundSettings, standardise: str
) -> Agreement:
    """Ask every node that connects who it is, until all have answered and there are enough.

    Most clients decide on classes and sample shape (ties: the smallest id); who differs, runs
    another version of FedSub, or claims a client id that is taken is turned away and named.

    Raises
    ------
    RunError
        If fewer than ``min-clients`` could be admitted within ``join-timeout`` seconds, or if
        simulated nodes are fewer than the people in their data.
    """
    _await_answers(registry, link, settings, all_answers=True)
    if not registry.online:
        raise _too_few(registry, settings, link)
    _refuse_half_a_federation(registry)
    classes, shape = _votes(registry).most_common(1)[0][0]
    _turn_away_misfits(registry, (classes, shape))
    if len(registry.online) < settings.min_clients:
        raise _too_few(registry, settings, link)
    held_out: frozenset[str] = frozenset()
    if settings.unseen is not None:
        drawn = unseen_clients(registry.nodes, settings.unseen.share, settings.seed)
        held_out = frozenset(drawn)
    pooled = None
    if standardise in POOLS:
        seen = sorted(c for c in registry.nodes if c not in held_out)
        pooled = scaling(POOLS[standardise]([registry.introductions[c].moments for c in seen]))
    return Agreement(classes, shape, pooled, held_out)


def gather(
    link: Link,
    registry: NodeRegistry,
    settings: RoundSettings,
    agreed: Agreement,
    all_answers: bool = False,
) -> None:
    """Let nodes join and leave; wait until enough clients are connected for a round.

    With `all_answers` also until every connected node has said who it is.

    Raises
    ------
    RunError
        If after ``join-timeout`` seconds there are fewer than ``min-clients``.
    """
    kind = agreed.classes, agreed.shape
    _await_answers(registry, link, settings, all_answers, kind)
    _turn_away_misfits(registry, kind)
    if len(registry.online) < settings.min_clients:
        raise _too_few(registry, settings, link)


def _await_answers(
    registry: NodeRegistry,
    link: Link,
    settings: RoundSettings,
    all_answers: bool,
    kind: Kind | None = None,
) -> None:
    """Look who is there until enough fit together, and all have answered, or time is up.

    They fit if they are of `kind`; before it is agreed on, if they are of the most frequent one.
    """
    deadline = time.monotonic() + settings.join_timeout
    while True:
        registry.refresh(link)
        votes = _votes(registry)
        fitting = votes[kind] if kind is not None else max(votes.values(), default=0)
        enough = fitting >= settings.min_clients
        if (enough and not (all_answers and registry.waiting)) or time.monotonic() >= deadline:
            return
        if link.closed and not registry.waiting:
            return  # nobody else will come
        time.sleep(POLL_SECONDS)


def _votes(registry: NodeRegistry) -> Counter[Kind]:
    said = (registry.introductions[client] for client in sorted(registry.online))
    return Counter((one.classes, one.shape) for one in said)


def _refuse_half_a_federation(registry: NodeRegistry) -> None:
    """Refuse a simulation in which some people would silently not take part."""
    everybody = registry.introductions.values()
    # One device among real ones that says it is simulated must not end the run.
    for said in everybody if all(one.people for one in everybody) else ():
        if said.nodes < said.people:
            raise RunError(
                f"{said.people} people in the data, but Flower simulates {said.nodes} SuperNodes, "
                f"one for each: {said.people - said.nodes} people would not take part. Give their "
                f"number: flwr run . --federation-config 'num-supernodes={said.people}', and your "
                "--run-config as before"
            )


def _turn_away_misfits(registry: NodeRegistry, kind: Kind) -> None:
    for client, said in sorted(registry.introductions.items()):
        for what, got, expected in (
            ("classes", said.classes, kind[0]),
            ("shape", said.shape, kind[1]),
        ):
            if got != expected:
                why = f"client {client!r}: {what}: got {cut(got)}, expected {cut(expected)}"
                registry.turn_away(client, why)
                break


def _too_few(registry: NodeRegistry, settings: RoundSettings, link: Link) -> RunError:
    away = "; ".join(f"node {n}: {why}" for n, why in sorted(registry.turned_away.items()))
    silent = f"; {registry.waiting} connected but did not answer" if registry.waiting else ""
    if link.closed:
        return RunError(
            f"{len(registry.online)} of at least {settings.min_clients} clients can take part "
            f"(turned away: {away or 'none'}). Correct their data, or lower min-clients"
        )
    return RunError(
        f"{len(registry.online)} of at least {settings.min_clients} clients after "
        f"{settings.join_timeout:g} s (turned away: {away or 'none'}{silent}). Start more devices, "
        "read their logs, or lower min-clients"
    )
