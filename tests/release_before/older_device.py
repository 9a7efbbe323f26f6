"""A device of whatever FedSub is installed where it runs: answers messages on its standard input.

A program of its own, so that its release is told apart. Each message is a pickle of its kind and
its records, each answer one of the reply's records, or of an error's text.
"""

import pickle
import sys
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import fedsub_client
from fedsub_client import app


def main() -> None:
    """Say which code answers, then answer until the input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    node, config = pickle.load(source)
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    pickle.dump(fedsub_client.__file__, sink)
    sink.flush()
    while True:
        try:
            kind, content = pickle.load(source)
        except EOFError:
            return
        message = Message(content, 1, kind, group_id="1")
        message.metadata.__dict__["_message_id"] = "1"
        verbs: dict[str, Any] = {"train": app.train, "evaluate": app.evaluate, "query": app.query}
        answer: RecordDict | str
        try:
            answer = verbs[kind](message, Context(1, 1, node, RecordDict(), config)).content
        except Exception as error:
            answer = str(error)
        pickle.dump(answer, sink)
        sink.flush()


if __name__ == "__main__":
    main()
