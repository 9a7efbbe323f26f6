"""A fleet's devices: all are real, and of those that worked last what they hold is in memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict

from fedsub_client.device import Device
from fedsub_client.person import Person
from fedsub_client.saved_state import Saved

#: Bytes of what devices hold in memory together. Of who did not work for longest the state then
#: lies in a file, and stacks are made anew.
IN_MEMORY = 2**30


class FleetDevices:
    """Devices by client, each made when it first works.

    Parameters
    ----------
    data : folder of the federation; states that are put away lie beside it, in ``states``.
    config : the run's, flat.
    """

    def __init__(self, data: str, config: Mapping[str, Any]) -> None:
        self._data, self._config = data, dict(config)
        #: A device keeps its state between messages, and its file does not change.
        self._devices: dict[str, tuple[Device, dict[str, Saved]]] = {}
        #: Bytes of each one in memory, those who worked last behind.
        self._bytes: dict[str, int] = {}
        self._folder = Path(data).with_name("states")

    def answer(self, client: str, kind: str, content: RecordDict) -> RecordDict:
        """Return the answer of a client's device; raises as :meth:`Device.answer`."""
        if client not in self._devices:
            node: dict[str, Any] = {"client-id": client, "data": self._data}
            held = dict[str, Saved]()
            device = Device(Context(0, 0, node, RecordDict(), self._config), held)
            self._devices[client] = device, held
        device, held = self._devices[client]
        if self._bytes.pop(client, None) is None:
            for path in self._files(client):
                held[path.name] = Saved.of_bytes(path.read_bytes())
        try:
            return device.answer(kind, content)
        finally:
            self._bytes[client] = _bytes_held(device.person, held)
            self._put_away()

    def replace(self, client: str) -> None:
        """Give a client a new device, with nothing of before."""
        self._devices.pop(client, None)
        self._bytes.pop(client, None)
        for path in self._files(client):
            path.unlink()

    def _put_away(self) -> None:
        """Write states of who did not work for longest, where all take more than they may."""
        while sum(self._bytes.values()) > IN_MEMORY and len(self._bytes) > 1:
            oldest = next(iter(self._bytes))
            del self._bytes[oldest]
            device, held = self._devices[oldest]
            device.person.forget_cohorts()
            own = self._folder / oldest
            own.mkdir(parents=True, exist_ok=True)
            for name, saved in held.items():
                (own / name).write_bytes(saved.to_bytes())
            held.clear()

    def _files(self, client: str) -> list[Path]:
        return [*(self._folder / client).glob("*")]


def _bytes_held(person: Person, held: Mapping[str, Saved]) -> int:
    tensors = [tensor for cohort in person.cohorts for tensor in cohort.state.values()]
    for saved in held.values():
        tensors += saved.state.values()
        tensors += [] if saved.model is None else saved.model.params.values()
    stacks = sum(cohort.data.nbytes for cohort in person.cohorts)
    replies = sum(len(saved.reply) for saved in held.values())
    return sum(tensor.nbytes for tensor in tensors) + stacks + replies
