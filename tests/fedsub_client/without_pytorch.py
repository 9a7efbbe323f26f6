"""Devices in a process without PyTorch: each object from standard input is answered by another.

A message's kind, its node, the node's config, the run's and a content: the content of the reply,
or the text of an error. A node alone: its state. None: the modules that are loaded; then it ends.
"""

from __future__ import annotations

import pickle
import sys

sys.modules["torch"] = None  # type: ignore[assignment]  # as if it were not installed

from flwr.app import Context, Message, RecordDict  # noqa: E402

from fedsub_client import app  # noqa: E402
from fedsub_client.store import ContextStore  # noqa: E402
from fedsub_core.flower.messages import play_alone, stamp_id  # noqa: E402

HANDLERS = {"query": app.query, "train": app.train, "evaluate": app.evaluate}


def main() -> None:
    """Answer until asked to end."""
    contexts: dict[int, Context] = {}
    play_alone()
    out = sys.stdout.buffer
    while (asked := pickle.load(sys.stdin.buffer)) is not None:
        if isinstance(asked, int):
            saved = ContextStore(contexts[asked].state).load()
            answer: object = saved and saved.to_bytes()
        else:
            kind, node, own, run, content = asked
            context = contexts.setdefault(node, Context(0, node, own, RecordDict(), run))
            message = Message(content, node, kind, group_id="0")
            stamp_id(message, "1")
            try:
                answer = HANDLERS[kind](message, context).content
            except Exception as error:  # as a SuperNode answers it
                answer = str(error)
        pickle.dump(answer, out)
        out.flush()
    pickle.dump([name for name, module in sys.modules.items() if module is not None], out)


if __name__ == "__main__":
    main()
