"""A run and messages in a SuperLink's state, as its handlers put them there."""

from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.task_identity import TaskIdentity


def going_run(state: Any) -> int:
    """Return the id of a new run that goes on."""
    run: int = state.create_run(
        None, None, None, {}, NOOP_FEDERATION_ID, None, "", TaskType.SERVER_APP
    )
    task = state.get_run_info(run_ids=[run])[0].primary_task_id
    assert state.claim_task(task) and state.activate_task(task)
    return run


def send(state: Any, run: int, node: int, text: str) -> str:
    """Store a message to a node, as the Grid does; return its id."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = run, 1, 1
    records = RecordDict({"said": ConfigRecord({"text": text})})
    message = Message(records, node, MessageType.TRAIN)
    message.metadata.__dict__["_message_id"] = message.object_id
    tree = ObjectTree(object_id=message.object_id)
    stored, _ = state.store_message_and_object_tree(message, tree, state.start_session(run))
    assert stored
    return str(message.object_id)


def took(state: Any, node: int, limit: int | None = 1) -> list[str]:
    """Return the ids of the messages that a look of a node brings."""
    return [one.metadata.message_id for one in state.get_message_ins(node, limit)]
