"""What all standardise by: made of what each person said, or of the sum alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.samples import Tokens
from fedsub_core.data.standardise import LARGEST_VALUE, POOLS, Moments, Scaling, scaling
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.names import resolve_encoder
from fedsub_core.encoders.standardised import feature_scaling, shared_features
from fedsub_core.errors import RunError
from fedsub_core.methods.card import MethodCard
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import Shape
from fedsub_core.secure import exact
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import FEATURES, MOMENTS, SAMPLES
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire.handshake import Introduction
from strategies.protections.groups import Anew, Group
from strategies.protections.open_sum import TooFew
from strategies.protections.secure_sums import SecureSums
from strategies.rounds.agreement import Agreement
from strategies.rounds.connection import Connection
from strategies.rounds.link import Link
from strategies.rounds.memory import Memory
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.pace import most_of
from strategies.rounds.round import HeldModels
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.undoing import Undoing

log = logging.getLogger("fedsub")

#: Returns the moments of everybody's samples or features: which, and of how many numbers.
Everybodys = Callable[[str, int], Moments]


def of_each(said: Sequence[Introduction], standardise: str) -> Everybodys:
    """Return the maker of everybody's moments from each one's, by the run's `standardise`."""

    def everybodys(part: str, numbers: int) -> Moments:
        each = [one.features if part == FEATURES else one.moments for one in said]
        return POOLS[standardise]([own for own in each if own is not None])

    return everybodys


def features_sent(settings: ServerSettings, card: MethodCard, shape: Shape) -> int:
    """Return of how many features of samples of a shape devices send moments."""
    text = resolve_encoder(settings.encoder, card.training.encodes, shape)
    encoder = build_encoder(text, settings.rounds.seed, shape)
    return shared_features(encoder, card.trains, settings.standardise)


def agreed_scaling(
    settings: ServerSettings,
    card: MethodCard,
    registry: NodeRegistry,
    agreed: Agreement,
    link: Link,
    sums: SecureSums | None,
    known: Scaling | None,
) -> Scaling | None:
    """Return the scaling of all people: nobody who is held out has a part in it.

    Parameters
    ----------
    sums : what adds moments up; None: each has said its own.
    known : see :func:`standardisation`.
    """
    if settings.standardise not in POOLS:
        return None
    rounds, people = settings.rounds, sorted(registry.nodes.keys() - agreed.unseen)
    if sums is None:
        said = [registry.introductions[client] for client in people]
        everybodys = of_each(said, settings.standardise)
    else:
        nodes = {client: registry.nodes[client] for client in people}
        most = 0 if registry.simulated else most_of(len(people), rounds.quorum)
        everybodys = partial(summed_moments, sums, link, nodes, rounds.round_timeout, most)
    features = features_sent(settings, card, agreed.shape)
    return standardisation(agreed.shape, features, everybodys, known)


def standardised_anew(
    round: int,
    half: ServerHalf,
    state: State,
    models: HeldModels,
    connection: Connection,
    memory: Memory,
    undoing: Undoing,
) -> tuple[State, list[MetricRow]]:
    """Compute the scaling of all people anew, note it, and drop from the state what goes by it.

    Of token ids there is none, and nothing is dropped.
    """
    population, link = connection.population, connection.link
    before, registry = population.agreed, population.registry
    scaling = agreed_scaling(half.settings, half.card, registry, before, link, None, None)
    memory.agreed = population.agreed = replace(before, scaling=scaling, renewed=round)
    if scaling is None:
        return state, []
    start = models.start(tuple(population.clients), connection.simulated)
    after, dropped = half.standardised_anew(state, start)
    undoing.forget()
    connection.past.clear()
    memory.upload_times.again.clear()  # late uploads of before are of no use
    people = len(set(population.clients) - before.unseen)
    log.warning(
        "round %d: what all standardise by is computed anew, of %d people; dropped: %s",
        round,
        people,
        dropped or "nothing",
    )
    return after, [MetricRow(round, "", None, "standardised_anew", people)]


def merged(one: Scaling | None, other: Scaling | None) -> Scaling | None:
    """Return the scaling of all people that either knows, `one` where both do."""
    if one is None or other is None:
        return one or other
    return one if one.features is not None else replace(one, features=other.features)


def standardisation(
    shape: Shape, features: int, everybodys: Everybodys, known: Scaling | None = None
) -> Scaling | None:
    """Return the scaling of all people; None of token ids.

    Parameters
    ----------
    shape : of a sample.
    features : numbers of an encoder's output that are standardised, too; 0: none are.
    everybodys : see there; it is asked for nothing that is known.
    known : what was agreed on before for other methods of the same run.
    """
    if isinstance(shape, Tokens):
        return None
    own = scaling(everybodys(SAMPLES, shape[0])) if known is None else known
    made = known.features if known else None
    if features and (made is None or len(made.mean) != features):
        made = feature_scaling(everybodys(FEATURES, features))
    return Scaling(own.mean, own.std, made if features else None)


log = logging.getLogger("fedsub")


def summed_moments(
    sums: SecureSums,
    link: Link,
    nodes: Mapping[str, int],
    timeout: float,
    most: int,
    part: str,
    numbers: int,
) -> Moments:
    """Return everybody's moments, of which the server sees nobody's, before the first round.

    The sum is exact: it has the bits of what plain moments are pooled to.

    Parameters
    ----------
    nodes : of those whose moments these are.
    timeout, most : :meth:`Delivery.exchange`'s.
    part : what the moments are of, :data:`SAMPLES` or :data:`FEATURES`.
    numbers : how many of these each sample has.

    Raises RunError if people are too few or too many, or their sum cannot be opened, or is one that
    no samples have.
    """
    if len(nodes) > exact.MOST_PEOPLE:
        expected = f"{exact.MOST_PEOPLE} at most, or standardise = client or none"
        raise RunError(f"secure-aggregation: got {len(nodes)} people, expected {expected}")
    asks = sums.asks(link, nodes, 0, timeout, most)
    try:
        one = sums.prepared(asks, 0, sorted(nodes), exact.LIMBS * (1 + 2 * numbers))
        levels, one.smallest = Levels(range=1.0, weight=1, each=1), one.least
        plans = sums.plans(one, levels)
        told, one.once = {"phase": MOMENTS, "of": part}, f"moments of {part}"
        one.plan |= told
        asks({client: plan.record() | told for client, plan in plans.items()}, one.take_words)
        of = Anew(one, levels, {"of": part})
        found, lost = sums.opened(asks, of, partial(_moments_in, part))
    except (CannotOpen, TooFew) as error:
        raise RunError(
            f"what all standardise by cannot be added up: {error}. Start again. Devices that "
            "name an earlier sum answer none of nearly the same people, in any run: bring back "
            "or leave out whom they name, or choose standardise = client or none"
        ) from None
    if found is None:
        raise RunError(
            "what all standardise by: got moments that no samples have: somebody sent a "
            "wrong vector, and sums do not tell who (the log names their groups). Choose "
            "standardise = client or none"
        )
    if (people := len(one.sent) - len(lost)) < len(nodes):
        log.warning(
            "what all standardise by is of %d of %d people; the others were silent, refused or "
            "left out",
            people,
            len(nodes),
        )
    return found


def _moments_in(part: str, summed: Words, people: Group) -> Moments:
    """Return the moments in a sum; raises ValueError if no samples have them."""
    found = Moments.of_vector(exact.numbers_of(summed))
    if fault := found.fault(1.0 if part == FEATURES else LARGEST_VALUE):
        raise ValueError(fault)
    return found
