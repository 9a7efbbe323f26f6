"""Messages to the clients of cohorts and their replies, all of a kind at once.

Where a round asks few of many, a client alone in its cohort would train alone: joined in one, they
share stacks again. Only who takes part has its data stacked.
"""

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from flwr.app import Error, Message, MessageType, RecordDict
from numpy.typing import NDArray

from fedsub.engines.sum_people import SumPeople
from fedsub_client.answers import Asked, evaluate, train
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import read_download
from fedsub_client.learner import Learner
from fedsub_client.protections.accepted_sum import AcceptedSum, accepted, vector_in
from fedsub_client.protections.sum_answers import answered
from fedsub_core.errors import MessageRefused
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.transcript import Origin
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundle_tensors import LastTensors
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.in_process_message import answer, content_of

#: Who takes part in no sums.
NOBODY = SumPeople()
#: What stacks hold of downloads, by content, as long as one of them does.
_HELD = WeakValueDictionary[bytes, torch.Tensor]()
_WORK = {MessageType.TRAIN: train, MessageType.EVALUATE: evaluate}


def replies(
    cohort: Cohort,
    kind: str,
    messages: Sequence[Message],
    people: SumPeople = NOBODY,
) -> list[Message]:
    """Let a cohort's clients answer messages of a kind, one to each, in their order.

    `people` take part in secure sums, by client.
    """
    if kind == MessageType.QUERY:
        said = [RecordDict({handshake.HANDSHAKE: i.record()}) for i in cohort.introductions()]
        return [Message(own, reply_to=m) for own, m in zip(said, messages, strict=True)]
    good, refused, parts = _read(cohort, messages, people)
    contents, _ = _WORK[kind](cohort, good)
    if kind == MessageType.TRAIN:
        keep_received(cohort, [one.received for one in good])
    answers, origins = list[Message](), dict[tuple[str, int, int], Origin]()
    for one, content in zip(good, contents, strict=True):
        message = messages[one.place]
        if one.place in parts:
            # Many are sent the same, which is hashed once.
            part, received = parts[one.place], one.received
            key = part.told_hash, received.version, id(received.tensors)
            if key not in origins:
                origins[key] = part.made(cohort.learner.origin(received))
            try:
                saved = content[exchange.PAYLOAD].to_bytes()
                payload = part.masked(saved, origins[key])
                if (vector := vector_in(saved)) is not None:
                    people.keep(part.person.client, vector)
            except MessageRefused as error:
                refused.append(Message(Error(0, str(error)), reply_to=message))
                continue
            content = {**content, exchange.PAYLOAD: payload}
        answers.append(answer(content, message))
    return refused + answers


def sum_reply(people: SumPeople, cohort: Cohort, i: int, message: Message) -> Message:
    """Let the `i`-th of a cohort answer a question about a secure sum, or say why it does not."""
    client, moments = cohort.clients[i].client, partial(cohort.data.shared_moments, i)
    kept, person = partial(people.kept, client), people.participants[client]
    try:
        return Message(answered(person, message.content[SECURE], moments, kept), reply_to=message)
    except MessageRefused as error:
        return Message(Error(0, str(error)), reply_to=message)


def _read(
    cohort: Cohort, messages: Sequence[Message], people: SumPeople
) -> tuple[list[Asked], list[Message], dict[int, AcceptedSum]]:
    """Read each client's message; one whose download is refused is answered with an error.

    Also return clients' parts in a secure sum whose plans came beside downloads, by place.
    """
    good, refused, parts = list[Asked](), list[Message](), dict[int, AcceptedSum]()
    last, record, told = LastTensors(), None, None
    for i, message in enumerate(messages):
        content = content_of(message)
        if told is None or content[exchange.TURN] is not record:
            record = content[exchange.TURN]
            told = exchange.read_instructions(record)
        try:
            payload = exchange.payload_of(content)
            asked = Asked(i, told, read_download(cohort, i, payload, told.turn.round, last))
            person = people.participants.get(cohort.clients[i].client)
            if person is not None and SECURE in content:
                half = cohort.settings
                parts[i] = accepted(person, content, told, half.secure, half.noise)
                asked = replace(asked, levels=parts[i].levels)
            good.append(asked)
        except (MessageRefused, ValueError) as error:
            refused.append(Message(Error(0, str(error)), reply_to=message))
    return good, refused, parts


def replaced_next(learner: Learner) -> dict[str, str]:
    """Return the tensors that nobody uses any more once they are trained and sent.

    People are tested with what they receive next in their place. By their names in the state, the
    names in a download.
    """
    if not (learner.renewed and learner.hyper.tested == "received"):
        return {}
    sent = learner.model.tensor_shapes.keys() & learner.sends.keys()
    return {f"{learner.models[0]}.{name}": name for name in sorted(sent)}


def keep_received(cohort: Cohort, received: Sequence[Bundle]) -> None:
    """Keep what all of a cohort were sent, once, in the place of what is :func:`replaced_next`.

    Of many people it is most of the memory.
    """
    if len(received) != len(cohort.clients):
        return
    for key, name in replaced_next(cohort.learner).items():
        parts = {id(part): part for part in (one.tensors.get(name) for one in received)}
        part, *others = parts.values()
        if not others and isinstance(part, Floats) and part.at.everywhere:
            cohort.state[key] = _once(part.values, cohort.device).expand_as(cohort.state[key])


def share_alike(cohort: Cohort) -> None:
    """Keep once, for all stacks, what all of a cohort hold alike of what is :func:`replaced_next`.

    So many people take no more memory before the first round, or after a resumed one, than later.
    """
    for key in replaced_next(cohort.learner):
        every = cohort.state[key]
        if torch.equal(every, every[:1].expand_as(every)):
            cohort.state[key] = _once(every[0].cpu().numpy(), cohort.device).expand_as(every)


def _once(values: NDArray[Any], device: str) -> torch.Tensor:
    """Return the tensor of these values on a device, one for all stacks: none changes it."""
    digest = hashlib.blake2b(f"{device} {values.dtype} {values.shape}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).data)
    held = _HELD.get(name := digest.digest())
    if held is None:
        held = _HELD[name] = torch.from_numpy(values.copy()).to(device)
    return held


#: Each client's cohort and its place there.
Members = Sequence[tuple[Cohort, int]]


def gathered(members: Members) -> Cohort:
    """Return a cohort of clients of others, with what they keep."""
    cohort = copy(members[0][0])  # not anew: nobody's first model is to be drawn
    cohort.hold([of.clients[i] for of, i in members])
    cohort.references = [of.references[i] for of, i in members]
    cohort.state = {
        name: torch.stack([of.state[name][i] for of, i in members]) for name in cohort.state
    }
    return cohort


def give_back(cohort: Cohort, members: Members) -> None:
    """Put what the clients keep now into their own cohorts."""
    for row, (of, i) in enumerate(members):
        of.put(i, {name: tensor[row] for name, tensor in cohort.state.items()})


def joined_replies(
    kind: str,
    members: Members,
    told: Sequence[Message],
    keep_data: bool,
    people: SumPeople,
) -> tuple[list[Message], Cohort | None]:
    """Return clients' replies, and the cohort that they were joined in; None: they are a whole one.

    Some clients of a cohort are always joined, so that no two threads change one cohort.
    """
    cohort = members[0][0]
    if members == [(cohort, i) for i in range(len(cohort.clients))]:
        answers = replies(cohort, kind, told, people)
        if not keep_data:  # they may not be asked again for long
            cohort.data.forget()
        return answers, None
    joined = gathered(members)
    return replies(joined, kind, told, people), joined
