"""Devices in a process without PyTorch: each object from standard input is answered by another.

A list of nodes, with the config of each and of the run, begins anew. A message's kind, node and
content: the content of the reply, or the text of an error. A node: its state. None: the modules
that are loaded; then it ends.
"""

import pickle
import sys
from typing import cast

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
    out, answer = sys.stdout.buffer, cast(object, None)
    while (asked := pickle.load(sys.stdin.buffer)) is not None:
        if isinstance(asked, list):
            contexts = {n: Context(0, n, own, RecordDict(), run) for n, own, run in asked}
        elif isinstance(asked, int):
            saved = ContextStore(contexts[asked].state).load()
            answer = saved and saved.to_bytes()
        else:
            kind, node, content = asked
            message = Message(content, node, kind, group_id="0")
            stamp_id(message, "1")
            try:
                answer = HANDLERS[kind](message, contexts[node]).content
            except Exception as error:  # as a SuperNode answers it
                answer = str(error)
        pickle.dump(answer, out)
        out.flush()
    pickle.dump([name for name, module in sys.modules.items() if module is not None], out)


if __name__ == "__main__":
    main()
