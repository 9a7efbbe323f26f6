"""Messages and what a device keeps as plain values, and the other way round."""

import base64
import json
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from numpy.typing import NDArray

from fedsub_client.file_history import FileHistory
from fedsub_client.protections.opened_store import OPENED_RECORD
from fedsub_client.saved_state import Saved
from fedsub_client.store import ContextStore
from fedsub_core.data.federation import Card, ClientData
from fedsub_core.pytorch import as_numpy, as_tensor
from fedsub_core.wire import exchange


def array(values: NDArray[Any]) -> dict[str, Any]:
    """Return an array as plain values, little-endian."""
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    return {"dtype": str(values.dtype), "shape": list(values.shape), "base64": _text(data)}


def array_of(values: Mapping[str, Any]) -> NDArray[Any]:
    """Inverse of :func:`array`."""
    flat = np.frombuffer(base64.b64decode(values["base64"]), values["dtype"])
    return flat.reshape(values["shape"]).copy()


def plain(content: RecordDict) -> dict[str, Any]:
    """Return a message's records as plain values, in the order of their names."""
    found: dict[str, Any] = {}
    for name, record in sorted(content.items()):
        if isinstance(record, ArrayRecord):
            found[name] = {"arrays": {k: _text(one.data) for k, one in record.items()}}
        else:
            found[name] = {k: _json(v) for k, v in cast(ConfigRecord, record).items()}
    return found


def records_of(content: Mapping[str, Any]) -> RecordDict:
    """Inverse of :func:`plain`, for what comes in."""
    found = RecordDict()
    for name, record in content.items():
        if "arrays" in record:
            found[name] = exchange.pack(base64.b64decode(record["arrays"][exchange.PAYLOAD]))
        else:
            values = {key: _value(value) for key, value in record.items()}
            found[name] = ConfigRecord(values)
    return found


def kept(state: RecordDict) -> dict[str, Any]:
    """Return the state that a device keeps, as plain values."""
    store, found = ContextStore(state), dict[str, Any]()
    if (saved := store.load()) is not None:
        found = {
            "run": saved.run, "method": saved.method, "round": saved.round,
            "levels": list(saved.levels or ()), "once": saved.once, "made_of": saved.made_of,
            "report": dict(saved.report), "reply": _text(saved.reply),
            "tensors": {name: array(as_numpy(t)) for name, t in sorted(saved.state.items())},
        }  # fmt: skip
    if (secrets := store.load_sums("")) is not None:
        found["sums"] = json.loads(secrets)
    if OPENED_RECORD in state:
        found["opened"] = json.loads(cast(ArrayRecord, state[OPENED_RECORD])[exchange.PAYLOAD].data)
    return found


def state_of(found: Mapping[str, Any], card: Card, person: ClientData) -> RecordDict:
    """Inverse of :func:`kept`, but for the model in use, which no answer depends on."""
    state = RecordDict()
    store = ContextStore(state)
    if "round" in found:
        tensors = {name: as_tensor(array_of(one)) for name, one in found["tensors"].items()}
        file, reply = FileHistory.first(person, card), base64.b64decode(found["reply"])
        facts = person.client, found["run"], found["method"], found["round"], file
        levels = (found["levels"][0], found["levels"][1]) if found["levels"] else None
        saved = Saved(
            *facts, tensors, reply, found["report"], None, levels, found["once"], found["made_of"]
        )
        store.save(saved)
    if "sums" in found:
        store.save_sums(json.dumps(found["sums"]).encode(), "")
    if "opened" in found:
        state[OPENED_RECORD] = exchange.pack(json.dumps(found["opened"]).encode())
    return state


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": _text(value)}
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return {"list": [_text(one) for one in value]}
    return value


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "base64" in value:
        return base64.b64decode(value["base64"])
    if isinstance(value, dict):
        return [base64.b64decode(one) for one in value["list"]]
    return value


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
