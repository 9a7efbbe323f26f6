"""Golden messages: what a device is told, keeps and answers, for devices in other languages.

    python -m fedsub.testing.golden [FOLDER]

Each file is a case: a run's settings, one person's samples, and every message to that person's
device in order. Of each message the file has what came in, what the device kept before and after
it, and what went out. A device in another language that begins with what was kept before, and is
told what came in, keeps and answers the same: to the bit where numbers are whole, else up to
rounding. Answers to questions for keys and shares are random; their form is what counts.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict

from fedsub.engines.in_process_grid import InProcessGrid
from fedsub.engines.simulation import build_strategy
from fedsub.testing.golden_refused import WRONG, refusal_of, wrong
from fedsub.testing.golden_values import array, kept, plain, state_of
from fedsub_client.device import Device
from fedsub_core.config.run_config import RunConfig, from_flat, to_flat
from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_core.data.sources import load_client
from fedsub_core.wire.joined import joined, separate

#: Where the files are kept.
FOLDER = Path(__file__).parents[2] / "proto" / "golden"
#: The folder in it of wrong messages.
REFUSED = "refused"
#: Whose device it is.
PERSON = "p1"
#: The settings of all cases, and of each by its name.
_FILE = tomllib.loads((FOLDER / "cases.toml").read_text("utf-8"))
CASES: dict[str, dict[str, Any]] = _FILE["cases"]


class RecordingDevices(InProcessGrid):
    """Devices of a federation's folder, of one of which all messages are written down.

    Parameters
    ----------
    join : whether messages after the handshake are joined.
    """

    def __init__(self, config: RunConfig, names: Sequence[str], join: bool = False) -> None:
        self.join = join
        self.contexts = {
            i: device_of(config, name, RecordDict()) for i, name in enumerate(names, 1)
        }
        self.exchanges: list[dict[str, Any]] = []
        super().__init__(list(self.contexts))

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let each device work."""
        for message in messages:
            context = self.contexts[message.metadata.dst_node_id]
            kind, before = message.metadata.message_type, kept(context.state)
            content = joined(message.content) if self.join else message.content
            came_in, answer = plain(content), answered(kind, content, context)
            reply = Message(separate(answer, PERSON), reply_to=message)
            if context.node_config["client-id"] == PERSON:
                went_out = {"out": plain(answer), "after": kept(context.state)}
                self.exchanges.append({"type": kind, "in": came_in, "before": before} | went_out)
            yield reply


def answered(kind: str, content: RecordDict, context: Context) -> RecordDict:
    """Return a device's answer to a message of a kind, such as ``train``."""
    return Device(context).answer(kind, content)


def device_of(config: RunConfig, client: str, state: RecordDict) -> Context:
    """Return the context of a person's device, with what it keeps."""
    node: dict[str, bool | float | int | str] = {"client-id": client, "data": config.data}
    return Context(0, 1, node, state, settings_of(config))


def settings_of(config: RunConfig) -> dict[str, Any]:
    """Return the run's settings as a device is told them: where its data lies, it knows itself."""
    return {key: value for key, value in to_flat(config).items() if key != "data"}


def windows_in(name: str) -> bool:
    """Return whether a case's samples are windows."""
    return bool(CASES[name].get("windows"))


def federation(windows: bool) -> Federation:
    """Return four people with few samples: `[n, 4]`, or windows `[n, 3, 16]`."""
    stream, clients = np.random.default_rng(11), {}
    shape = (3, 16) if windows else (4,)
    for i in range(1, 5):
        y = np.repeat(np.arange(3), 8)
        x = stream.normal(size=(len(y), *shape)) + 0.5 * y.reshape(-1, *[1] * len(shape))
        clients[f"p{i}"] = ClientData(f"p{i}", x.astype(np.float32), y)
    channels = ("x", "y", "z") if windows else ("a", "b", "c", "d")
    return Federation(Card("golden", "a test", ("sit", "walk", "run"), channels), clients)


def recorded(name: str) -> dict[str, Any]:
    """Return a case as plain values.

    Raises
    ------
    KeyError
        If there is none of that name.
    """
    people = federation(windows_in(name))
    with TemporaryDirectory() as folder:
        write_federation(Path(folder), people)
        case = dict(CASES[name])
        case.pop("windows", None)
        join = bool(case.pop("joined", False))
        config = from_flat({"method": name, "data": folder, **_FILE["all"], **case})
        return played(name, config, list(people.clients), join)


def played(
    name: str, config: RunConfig, people: Sequence[str], join: bool = False
) -> dict[str, Any]:
    """Return a run of people in a federation's folder as a case: all that :data:`PERSON` met."""
    grid = RecordingDevices(config, people, join)
    strategy = build_strategy(config, config.method)
    strategy.run_name, strategy.outset.run_config = f"golden {name}", settings_of(config)
    strategy.start(grid)
    person = load_client(config.data, PERSON)[1]
    card = (Path(config.data) / "federation.toml").read_text("utf-8")
    samples = {"client": PERSON, "x": array(person.x), "y": array(person.y)}
    return {
        "case": name, "config": settings_of(config), "card": card, "person": samples,
        "exchanges": grid.exchanges,
    }  # fmt: skip


@contextmanager
def device_before(case: Mapping[str, Any], number: int) -> Iterator[Context]:
    """Have the device of a recorded case, as it is before the exchange of this number.

    Parameters
    ----------
    case : as :func:`recorded` returns it.
    """
    with TemporaryDirectory() as folder:
        write_federation(Path(folder), federation(windows_in(case["case"])))
        card, person = load_client(folder, PERSON)
        config = from_flat({**case["config"], "data": folder})
        yield device_of(config, PERSON, state_of(case["exchanges"][number]["before"], card, person))


def refused(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the wrong messages of a recorded case, each with its refusal."""
    found = list[dict[str, Any]]()
    for number, name, came in wrong(case):
        with device_before(case, number) as context:
            refusal = refusal_of(case["exchanges"][number]["type"], came, context)
        found.append({"name": name, "exchange": number, "in": came, "refused": refusal})
    return found


def main(folder: Path) -> None:
    """Write all cases into a folder."""
    (folder / REFUSED).mkdir(parents=True, exist_ok=True)
    for name in CASES:
        case = recorded(name)
        written = {f"{name}.json": case}
        if name in WRONG:
            written[f"{REFUSED}/{name}.json"] = {"case": name, "messages": refused(case)}
        for file, values in written.items():
            text = json.dumps(values, indent=1, sort_keys=True)
            (folder / file).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
