"""A newcomer's model: what its device solves when it joins, of the run's sums and its own labels.

The device's own code does it, as in any round: :class:`~fedsub_client.cohort.Cohort` takes the
download in, adds the person's samples to sums that lack them, and solves.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fedsub.newcomers.finished_run import FinishedRun, ForNewcomers, Source
from fedsub.newcomers.people import Labels, NewPeople, divided, fitting
from fedsub_client.answers import tested
from fedsub_client.cohort import Cohort
from fedsub_client.new_cohort import make_cohort
from fedsub_client.new_samples import check_distances
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.data.card import Card
from fedsub_core.data.samples import Samples
from fedsub_core.data.standardise import Scaling, moments
from fedsub_core.data.standardise import scaling as own_scaling
from fedsub_core.errors import DataError
from fedsub_core.metrics import ClientMetrics
from fedsub_core.target_errors import TargetErrors
from fedsub_core.turn import Turn

log = logging.getLogger("fedsub")

#: What becomes of the samples that the run has of a known person.
ADD, REPLACE = "add", "replace"


@dataclass(frozen=True)
class Adapted:
    """A person's model, and what it reaches.

    Parameters
    ----------
    known : how the run knows the person: ``""`` not at all, ``added`` and ``replaced`` as its
        samples in the sums are, ``as new`` where nobody knows which they are.
    labelled : windows with a label that is used, by class; of a target by its name.
    tested : windows.
    scores : on these; None where there are none.
    """

    person: str
    known: str
    labelled: dict[str, int]
    tested: int
    scores: ClientMetrics | TargetErrors | None
    model: PersonalModel


def adapted(
    source: Source, people: NewPeople, labels: Labels, known: str = ADD
) -> Iterator[Adapted]:
    """Yield each person's model, in the order of their ids.

    Parameters
    ----------
    known : ``add`` or ``replace``.

    Raises DataError if somebody's samples are none that the run's encoder and classes are for.
    Raises ConfigError or RunError if samples of a known person are to be replaced that nobody can
    take out.
    """
    plain = source.for_person()
    fits = {name: fitting(people.card, data, plain) for name, data in people.clients.items()}
    for client in sorted(fits):
        how = _known(source, client, known)
        given = (
            plain
            if how in ("", "as new")
            else source.for_person(client, replaces=how == "replaced")
        )
        card, data = fits[client]
        labelled = client not in people.unlabelled
        parts, seen = divided(card, data, given.settings.split, labels, labelled)
        shared = _scaling(given, seen)
        if shared is not None and (far := check_distances(seen, card, shared, repr(client))):
            log.warning("%s", far)
        settings = replace(given.settings, standardise="federation")
        cohort = make_cohort(settings, card, [parts])
        _check_features(cohort, given)
        yield _solved(cohort, given, shared, how)


def _known(source: Source, client: str, known: str) -> str:
    if source.knows(client):
        return "added" if known == ADD else "replaced"
    met = isinstance(source, FinishedRun) and client in source.people
    if known == REPLACE and (met or not isinstance(source, FinishedRun)):
        source.for_person(client, replaces=True)  # which says why not
    return "as new" if met else ""


def _scaling(given: ForNewcomers, seen: Samples) -> Scaling | None:
    """Return the scaling of a person's samples; `seen` are those that one of its own is of."""
    if given.settings.standardise == "client":
        return own_scaling(moments(seen))
    return given.scaling


def _check_features(cohort: Cohort, given: ForNewcomers) -> None:
    (features,) = cohort.learner.model.input_shape
    for name, declared in cohort.receives.items():
        if name in given.download.tensors:
            got = np.shape(given.download.floats(name))
            if got != declared.shape:
                raise DataError(
                    f"{name}: got sums of shape {got}, expected {declared.shape}, of the "
                    f"{features} features that encoder {given.settings.encoder} makes here"
                )


def _solved(cohort: Cohort, given: ForNewcomers, shared: Scaling | None, how: str) -> Adapted:
    turn = Turn(given.round, given.round, given.settings.seed)
    state = cohort.personalised(turn, shared, [0], [given.download])
    (parts,) = cohort.clients
    scores = None
    if len(parts.test_y):
        (scores,) = tested(cohort, turn, shared, [0], state)
    params = cohort.learner.predicted_by(state)
    return Adapted(
        parts.client,
        how,
        _labelled(parts, cohort.card),
        len(parts.test_y),
        scores,
        cohort.personal_model(0, params, given.round, shared),
    )


def _labelled(parts: SplitClient, card: Card) -> dict[str, int]:
    """Return the number of labels that are used, by class; of a target by its name."""
    if card.target is not None:
        return {card.target.name: len(parts.train_y)}
    counts = np.bincount(parts.train_y, minlength=len(card.classes)).tolist()
    return dict(zip(card.classes, counts, strict=True))
