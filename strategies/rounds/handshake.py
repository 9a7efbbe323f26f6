"""The handshake: the server asks who is there, until enough fit together to begin or go on."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from fedsub_core.config.settings import RoundSettings
from fedsub_core.data.card import Card
from fedsub_core.data.held_out import unseen_clients
from fedsub_core.errors import RunError, cut
from fedsub_core.models.architecture import Shape
from strategies.rounds.agreement import Agreement
from strategies.rounds.delivery import POLL_SECONDS
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.strangers import turn_away_strangers

log = logging.getLogger("fedsub")

#: What clients must agree on: names of the classes, shape of a sample.
Kind = tuple[tuple[str, ...], tuple[int, ...]]
#: Seconds in which a device that is there may say who it is, once there are enough others.
ANSWER_SECONDS = 120.0
#: Seconds from one line of the log to the next that say who is waited for.
LINE_SECONDS = 60.0
#: Clients that are named at most for each kind, where they disagree.
NAMED = 5


def agree(
    link: Link,
    registry: NodeRegistry,
    settings: RoundSettings,
    card: Card | None = None,
    features: Callable[[Shape], int] = lambda shape: 0,
) -> Agreement:
    """Ask every node that connects who it is, until all have answered and there are enough.

    What they standardise by is agreed on next (:mod:`strategies.protections.standardising`).

    More than half of the clients decide on classes and sample shape, among those that fit the
    operator's `card`, if there is one. Who differs, speaks another wire, or claims a
    client id that is taken is turned away and named; and who does not send the moments of as many
    features of an encoder as `features` says of a sample's shape, if it says any.

    Raises RunError if fewer than ``min-clients`` could be admitted and there was no sign of life
    for ``join-timeout`` seconds, if no more than half of them say the same, or if simulated nodes
    are fewer than the people in their data.
    """
    _await_answers(registry, link, settings, all_answers=True, card=card)
    if not registry.online:
        raise _too_few(registry, settings, link)
    _refuse_half_a_federation(registry)
    if (kind := _majority(registry)) is None:
        raise _divided(registry)
    agreed = Agreement(*kind, None, frozenset())
    _turn_away_misfits(registry, agreed)
    _turn_away_without_features(registry, features(agreed.shape))
    if len(registry.online) < _least(registry, settings):
        raise _too_few(registry, settings, link)
    held_out: frozenset[str] = frozenset()
    if settings.unseen is not None:
        sizes = {c: one.facts.capacity.share for c, one in registry.introductions.items()}
        unseen = settings.unseen
        how = unseen.share, settings.seed, unseen.by, sizes, unseen.people
        held_out = frozenset(unseen_clients(registry.nodes, *how))
    return replace(agreed, unseen=held_out)


def gather(
    link: Link,
    registry: NodeRegistry,
    settings: RoundSettings,
    agreed: Agreement,
    all_answers: bool = False,
) -> None:
    """Let nodes join and leave; wait until enough clients are connected for a round.

    With `all_answers` also until every connected node has said who it is.

    Raises RunError if there are fewer than ``min-clients``, and no sign of life for
    ``join-timeout`` seconds.
    """
    _await_answers(registry, link, settings, all_answers, agreed)
    _turn_away_misfits(registry, agreed)
    if len(registry.online) < _least(registry, settings):
        raise _too_few(registry, settings, link)


def _await_answers(
    registry: NodeRegistry,
    link: Link,
    settings: RoundSettings,
    all_answers: bool,
    agreed: Agreement | None = None,
    card: Card | None = None,
) -> None:
    """Look for nodes until enough fit together, and all have answered, or time is up.

    They fit if they are as `agreed`; before that, if they are of the kind of most who fit
    `card`. Who does not fit that is turned away. Once there are enough, no sign of life of others
    makes the wait any longer.
    """
    begun = link.clock.now
    patience = settings.join_timeout or (ANSWER_SECONDS if link.simulates else math.inf)
    next_line = begun + LINE_SECONDS
    while True:
        registry.refresh(link)
        if card is not None:
            turn_away_strangers(registry, card)
        fit = _fitting(registry, agreed)
        enough = fit > 0 and fit >= _least(registry, settings)
        now = link.clock.now
        if enough and not (all_answers and registry.waiting and now < begun + ANSWER_SECONDS):
            return
        if now >= max(begun, -math.inf if enough else registry.heard) + patience:
            return
        if now >= next_line:
            next_line = now + LINE_SECONDS
            log.info(
                "waiting for devices: %d of at least %d can take part; %d connected and starting, "
                "%d turned away",
                fit,
                _least(registry, settings),
                registry.waiting,
                len(registry.turned_away),
            )
        if (link.closed and not registry.waiting) or (link.simulates and registry.all_refused):
            return  # nobody else will come, nor those who are there say anything else
        link.clock.wait(POLL_SECONDS, next_line)


def _least(registry: NodeRegistry, settings: RoundSettings) -> int:
    return registry.departures.least(settings.min_clients)


def _fitting(registry: NodeRegistry, agreed: Agreement | None) -> int:
    """Return the number of clients there that fit together, or what was agreed on."""
    votes = _votes(registry)
    if agreed is None:
        kind = _majority(registry)
        return 0 if kind is None else votes[kind]
    fits = (n for (had, shape), n in votes.items() if agreed.knows(had) and shape == agreed.shape)
    return sum(fits)


def _votes(registry: NodeRegistry) -> Counter[Kind]:
    introductions = (registry.introductions[client] for client in sorted(registry.online))
    return Counter((introduction.classes, introduction.shape) for introduction in introductions)


def _majority(registry: NodeRegistry) -> Kind | None:
    """Return the classes and shape of more than half of those there; None if they are divided."""
    votes = _votes(registry)
    for kind, count in votes.most_common(1):
        if 2 * count > votes.total():
            return kind
    return None


def _divided(registry: NodeRegistry) -> RunError:
    parts = []
    for kind, count in _votes(registry).most_common(NAMED):
        said = registry.introductions
        clients = [c for c in sorted(registry.online) if (said[c].classes, said[c].shape) == kind]
        named = ", ".join(map(repr, clients[:NAMED])) + (", ..." if count > NAMED else "")
        parts.append(f"{named}: classes {cut(kind[0])}, shape {kind[1]}")
    return RunError(
        f"clients disagree about their data, and no more than half of {len(registry.online)} say "
        f"the same: {'; '.join(parts)}. Unregister who is wrong, demand more devices with "
        "min-clients, or say which is right: data=FOLDER, where the federation's federation.toml "
        "lies on the server"
    )


def _refuse_half_a_federation(registry: NodeRegistry) -> None:
    """Refuse a simulation in which some people would silently not take part."""
    everybody = registry.introductions.values()
    # One device among real ones that says it is simulated must not end the run.
    for introduction in everybody if all(each.people for each in everybody) else ():
        people, nodes = introduction.people, introduction.nodes
        if nodes < people:
            raise RunError(
                f"{people} people in the data, but Flower simulates {nodes} SuperNodes, one for "
                f"each: {people - nodes} people would not take part. Give their number: flwr run "
                f". --federation-config 'num-supernodes={people}', and your --run-config as before"
            )


def _turn_away_misfits(registry: NodeRegistry, agreed: Agreement) -> None:
    for client, introduction in sorted(registry.introductions.items()):
        got, shape = introduction.classes, introduction.shape
        for what, came, expected, fits in (
            ("classes", got, agreed.classes, agreed.knows(got)),
            ("shape", shape, agreed.shape, shape == agreed.shape),
        ):
            if not fits:
                why = f"client {client!r}: {what}: got {cut(came)}, expected {cut(expected)}"
                registry.turn_away(client, why)
                break


def _turn_away_without_features(registry: NodeRegistry, made: int) -> None:
    """Turn away whose moments of features are not of as many as the run's encoder makes."""
    for client, introduction in sorted(registry.introductions.items()) if made else ():
        if (got := 0 if introduction.features is None else len(introduction.features.sum)) != made:
            why = f"moments of {got} features, expected {made} of the run's encoder"
            registry.turn_away(client, f"client {client!r}: got {why}")


def _too_few(registry: NodeRegistry, settings: RoundSettings, link: Link) -> RunError:
    away = "; ".join(f"node {n}: {why}" for n, why in sorted(registry.turned_away.items()))
    silent = f"; {registry.waiting} connected but did not answer" if registry.waiting else ""
    there = f"{len(registry.online)} of at least {_least(registry, settings)} clients"
    if link.closed or (link.simulates and registry.all_refused):
        return RunError(
            f"{there} can take part (turned away: {away or 'none'}). Correct their data, or lower "
            "min-clients"
        )
    return RunError(
        f"{there} after {settings.join_timeout:g} s (turned away: {away or 'none'}{silent}). Start "
        "more devices, read their logs, or lower min-clients"
    )
