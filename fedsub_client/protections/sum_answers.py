"""A person's answers to the questions about secure sums that come beside a round's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from fedsub_client.protections.accepted_sum import OF_ONE_PROCESS
from fedsub_core.data.standardise import Moments
from fedsub_core.secure.exact import words_of
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import AGAIN, MOMENTS, SECURE, Plan, Record
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.transcript import Origin, digest


def answered(
    person: Participant,
    record: Mapping[str, Any],
    moments: Callable[[str], Moments | None],
    kept: Callable[[], Words | None],
    config: Mapping[str, Any] = OF_ONE_PROCESS,
) -> RecordDict:
    """Return the answer of a person to a question about a sum.

    Parameters
    ----------
    moments : of the person's samples or features (:data:`SAMPLES`, :data:`FEATURES`), if the run
        standardises these by everybody's.
    kept : the vector of the round before it was masked, if there is one.
    config : the run's configuration, as it came.

    Raises MessageRefused if the person does not answer it.
    """
    if (phase := record.get("phase")) == MOMENTS or (phase == AGAIN and "of" in record):
        said = _masked_moments(person, record, moments, config)
    elif phase == AGAIN:
        said = _masked_again(person, record, kept, config)
    else:
        round = record.get("round")
        said = person.answer(record, round if isinstance(round, int) else 0)
    return RecordDict({SECURE: ConfigRecord(said)})


def _masked_moments(
    person: Participant,
    record: Mapping[str, Any],
    moments: Callable[[str], Moments | None],
    config: Mapping[str, Any],
) -> Record:
    """Return a person's moments under masks, for the plan of a sum that came with the question.

    They stay the same while its file does: all sums of them in a run must be of the same people.
    """
    reader, part = Reader(person.client, 0), str(record.get("of"))
    plan, own = reader.plan(record), moments(part)
    if own is None:
        expected = "what the run standardises by everybody's"
        raise reader.refuse("secure sum: moments", f"a question for those of {part!r}", expected)
    try:
        vector = words_of(own.vector())
    except ValueError as error:
        raise reader.refuse(f"secure sum: moments of {part}", error, "finite numbers") from None
    return _masked(person, plan, vector, Origin(f"moments of {part}", _made_of(config)))


def _masked_again(
    person: Participant,
    record: Mapping[str, Any],
    kept: Callable[[], Words | None],
    config: Mapping[str, Any],
) -> Record:
    """Return the vector of a round once more, for the sum of a group that the round's is made of.

    It is the very vector, which the person checks, so nothing is rounded anew.
    """
    round = record.get("round")
    reader = Reader(person.client, round if isinstance(round, int) else 0)
    plan, vector = reader.plan(record), kept()
    if vector is None:
        got, expected = "a question for it once more", "none: it is no longer kept"
        raise reader.refuse("secure sum: vector", got, expected)
    return _masked(person, plan, vector, Origin(made_of=_made_of(config)))


def _made_of(config: Mapping[str, Any]) -> str:
    return digest({"config": dict(config)})


def _masked(person: Participant, plan: Plan, vector: Words, origin: Origin) -> Record:
    """Return the answer to a question for a vector, which stands under masks in it."""
    person.accept(plan)
    masked = person.masked(vector, plan.name, origin)
    return {"vector": masked.astype("<u4", copy=False).tobytes()}
