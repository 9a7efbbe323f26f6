"""Objects of messages to come: who can foretell one can register it first, with false children.

A SuperLink takes an object's children from whoever names it first, and then refuses everybody who
names others: a record that all devices can foretell can be kept from all of them.
"""

from flwr.proto import recorddict_pb2 as pb

from .device import Device, Question
from .objects import Thing, content, thing


def next_turn(question: Question) -> Thing:
    """Return the record `turn` of the next round, as far as this one tells."""
    record = pb.ConfigRecord.FromString(question.bodies["turn"])
    for item in record.items:
        if item.key == "round":
            item.value.sint64 += 1
    return thing("ConfigRecord", record.SerializeToString())


def occupy(device: Device, question: Question, foretold: Thing) -> str:
    """Answer with an object that is foretold, and to which a child is made up."""
    false = Thing(foretold.content, (thing("ArrayChunk", b"no child of it"),))
    reply = device.reply(question, content({"payload": false}))
    asked = device.announce(question, reply)
    # The session lives as long as something of it comes now and then.
    device.push(question, reply.children[0], asked.session_id)
    return f"{foretold.identity[:8]} occupied" if asked.objects_to_push else "refused"


def foresee(device: Device, question: Question) -> str:
    """Fit at first, then occupy what the next round's messages have in common."""
    if question.metadata.message_type == "query":
        return device.send(question, device.introduction(question))
    return occupy(device, question, next_turn(question))


def foresee_greeting(device: Device, question: Question) -> str:
    """Occupy the question that every new node is asked first."""
    return occupy(device, question, thing("ConfigRecord", question.bodies["handshake"]))
