"""Requests that an exchange costs at the SuperLink, with joined messages and without.

Two devices of a rehearsed deployment train, with TLS and keys. They answer in joined messages, then
as devices of an earlier release do, in separate records. An exchange is a message and its reply.
Counted are the calls that Flower's handlers log, of the exchanges alone: of the looks for a message
only those that find one.
"""

import os
import re
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

from deployment import small_federation
from script import put_rows, read_arguments

import fedsub_client
from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.options import Value

TINY = ["--rounds", "1", "--methods", "fedsub-ridge"]
#: Deployments come up one after another: a minute or two, however tiny.
SLOW = True
LINES = ("fedsub-ridge, separate records:", "fedsub-ridge, joined:")
#: An exchange's calls: as Flower's handlers log each, once, at the level DEBUG.
CALLS = {
    "pull-object": r"\[Fleet.PullObject\]",
    "confirm-message-received": r"\[Fleet.ConfirmMessageReceived\]",
    "push-messages": r"\[Fleet.PushMessages\] Push",
    "push-object": r"\[Fleet.PushObject\]",
}
#: The app of a device of an earlier release.
SEPARATE = """
from flwr.clientapp import ClientApp
from flwr.app import Message
from fedsub_client.device import Device

app = ClientApp()


def answered(kind, message, context):
    return Message(getattr(Device(context), kind)(message.content), reply_to=message)


@app.query()
def query(message, context):
    return answered("query", message, context)


@app.train()
def train(message, context):
    return answered("train", message, context)


@app.evaluate()
def evaluate(message, context):
    return answered("evaluate", message, context)
"""


class Counted(Rehearsal):
    """A rehearsal whose SuperLink logs each call."""

    def _start(self, name: str, command: list[str], rank: int) -> None:
        level = {"FLWR_LOG_LEVEL": "DEBUG"} if name == "superlink" else {}
        with patch.dict(os.environ, level):
            super()._start(name, command, rank)


def requests(method: str, rounds: int, shim: str) -> Counter[str]:
    """Return an exchange's calls, by name, of a run whose devices look for modules in `shim`."""
    with tempfile.TemporaryDirectory() as folder:
        data = small_federation(Path(folder, "data"), 2, 60)
        keys: dict[str, Value] = {
            "method": method,
            "beside": "",
            "rounds": rounds,
            "data": data,
            "out": folder,
        }
        before = filter(None, [shim, os.environ.get("PYTHONPATH")])
        with patch.dict(os.environ, {"PYTHONPATH": os.pathsep.join(before)}):
            rehearsal = Counted(read_config(None, keys), 2, lambda text: None, lambda n: None)
            rehearsal()
        log = rehearsal.place.log("superlink").read_text(errors="replace")
    calls = Counter({name: len(re.findall(text, log)) for name, text in CALLS.items()})
    # One look each finds the message.
    calls["pull-messages"] = calls["push-messages"]
    return calls


def hide_app(folder: Path) -> str:
    """Put the app of an earlier release in the place of ours; return the path to it."""
    shim = folder / "fedsub_client"
    shim.mkdir()
    (shim / "__init__.py").write_text(f"__path__.append({str(Path(fedsub_client.__path__[0]))!r})")
    (shim / "app.py").write_text(SEPARATE)
    return str(folder)


def main() -> None:
    arguments = read_arguments(TINY, rounds=4, methods=["fedavg", "fedsub-ridge"], out=Path)
    with tempfile.TemporaryDirectory() as folder:
        shims = {"separate records": hide_app(Path(folder)), "joined": ""}
        for method in arguments.methods:
            for name, shim in shims.items():
                calls = requests(method, arguments.rounds, shim)
                exchanges = calls["push-messages"]
                each = {call: round(n / exchanges, 1) for call, n in calls.items()}
                total = round(calls.total() / exchanges, 1)
                print(f"{method}, {name}: {total} requests an exchange, {each}", flush=True)
                row = {"flower": version("flwr"), "method": method, "messages": name}
                row |= {"exchanges": exchanges, "requests": total, **each}
                put_rows(arguments.out, [row], ["flower", "method", "messages"])


if __name__ == "__main__":
    main()
