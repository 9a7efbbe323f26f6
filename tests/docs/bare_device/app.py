"""The ClientApp: answers the server's messages for the person whose data the node config names.

The folder `data` of the node config holds ``own.npz``: train_x, train_y, test_x, test_y, classes.
"""

from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from . import encoder, methods, model, wire

WIRE, SCHEMA = 2, "fedsub.v2"
app = ClientApp()


class Device:
    """One person's device; what it keeps of a run stands in the node's state."""

    def __init__(self, context: Context) -> None:
        self.node, self.state = context.node_config, context.state
        self.config: Any = self.state.config_records.get("settings", {})
        self.client = str(self.node["client-id"])
        with np.load(Path(str(self.node["data"])) / "own.npz") as own:
            self.data = dict(own)

    def query(self, content: Any) -> RecordDict:
        """Say who this is, to a server that speaks this wire."""
        server, x = content["handshake"], self.data["train_x"].astype(np.float64)
        version = str(self.node["version"])  # the release that it was built for
        if WIRE not in server["wires"]:
            raise ValueError(f"the server speaks {dict(server)}, expected {SCHEMA}")
        self.config = self.state["settings"] = ConfigRecord(dict(content["settings"]))
        said: Any = {"client": self.client, "version": version, "schema": SCHEMA, "capacity": 1.0}
        said |= {"classes": self.data["classes"].tolist(), "shape": list(x.shape[1:])}
        said |= {"examples": len(x), "count": len(x), "joined": int(self.node["joined"])}
        said |= {"sum": x.sum(0).tolist(), "sumsq": (x**2).sum(0).tolist()}
        if ":" in (text := str(self.config["encoder"])):
            own = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
            made = encoder.encode(text, int(self.config["seed"]), own, own=own).astype(np.float64)
            said |= {
                "feature_sum": made.sum(0).tolist(),
                "feature_sumsq": (made**2).sum(0).tolist(),
            }
        return RecordDict({"handshake": ConfigRecord(said)})

    def train(self, content: Any) -> RecordDict:
        """Do a round of local work, once."""
        turn, kept = content["turn"], self._kept(content["turn"])
        round, filters = turn["round"], str(self.config["upload-encoding"]).split(",")
        if kept.get("round", [0])[0] == round:  # asked again: the same reply
            payload, params = bytes(kept["reply"]), self._part(kept, "model.")
            return self._reply(payload, float(kept["loss"][0]), params, turn)
        params, reference = self._part(kept, "model."), self._part(kept, "reference.")
        x, y = self._scaled("train", turn)
        parts, version, known = self._received(content, turn, reference)
        params = methods.take_in(params, parts)
        steps = {key: self.config[key] for key in ("epochs", "lr", "momentum")}
        batch = int(self.config["batch-size"])
        params, loss = model.train(params, x, y, **steps, batch=batch, seed=round)
        if known != int(reference.get("", [0])[0]):
            reference = {}
        header = {"client_id": self.client, "round": round, "examples": len(y)}
        if turn["method"] == "fedsub":
            header["version"] = methods.content_version(x, y)
            send = header["version"] != version
            depth = self.config["fedsub.depth"]
            samples = self.config["fedsub.relevance-samples"]
            upload = methods.fedsub_upload(params, x, y, depth, samples, send)
        else:
            upload = methods.fedavg_upload(params)
        payload = wire.encode(header, upload, filters, reference)
        kept = {f"model.{name}": tensor for name, tensor in params.items()}
        kept |= {f"reference.{name}": tensor for name, tensor in reference.items()}
        kept |= {"round": np.array([round]), "loss": np.array([loss])}
        kept["reply"] = np.frombuffer(payload, np.uint8)
        self.state[self._name(turn)] = ArrayRecord({n: Array(a) for n, a in kept.items()})
        return self._reply(payload, loss, params, turn)

    def evaluate(self, content: Any) -> RecordDict:
        """Say how the model does; keep nothing."""
        turn, kept = content["turn"], self._kept(content["turn"])
        parts, _, _ = self._received(content, turn, self._part(kept, "reference."))
        params = methods.take_in(self._part(kept, "model."), parts)
        return RecordDict({"metrics": self._metrics(params, turn)})

    def _reply(self, payload: bytes, loss: float, params: model.Params, turn: Any) -> RecordDict:
        array = Array("uint8", (len(payload),), SCHEMA, payload)
        reply = RecordDict({"payload": ArrayRecord({"payload": array})})
        reply["report"] = MetricRecord({"training_loss": loss})
        if turn.get("evaluate"):
            reply["metrics"] = self._metrics(params, turn)
        return reply

    def _metrics(self, params: model.Params, turn: Any) -> MetricRecord:
        return MetricRecord({**model.metrics(params, *self._scaled("test", turn))})

    def _received(self, content: Any, turn: Any, reference: wire.Reference) -> Any:
        array, fedsub = content["payload"]["payload"], turn["method"] == "fedsub"
        return wire.decode(array.data, self.client, turn["round"], lambda _: fedsub, reference)

    def _scaled(self, part: str, turn: Any) -> tuple[np.ndarray, np.ndarray]:
        x, own, y = (self.data[name] for name in (f"{part}_x", "train_x", f"{part}_y"))
        if "mean" in turn:
            mean, std = (np.frombuffer(turn[of], "<f4") for of in ("mean", "std"))
            x, own = (x - mean) / std, (own - mean) / std
        x, own, text = x.astype(np.float32), own.astype(np.float32), str(self.config["encoder"])
        if ":" in text:
            x = encoder.encode(text, turn["seed"], x, own=own)
            mean, std = (np.frombuffer(turn[f"feature_{of}"], "<f4") for of in ("mean", "std"))
            x = (x - mean) / std
        return x, y

    def _name(self, turn: Any) -> str:
        return f"{turn['method']}/{turn.get('run', '')}"

    def _kept(self, turn: Any) -> dict[str, np.ndarray]:
        if self._name(turn) in self.state.array_records:
            kept = self.state.array_records[self._name(turn)]
            return {name: array.numpy() for name, array in kept.items()}
        features, classes = self._scaled("train", turn)[0].shape[1], len(self.data["classes"])
        first = model.first_weights(features, classes, turn["seed"])
        return {f"model.{name}": tensor for name, tensor in first.items()}

    @staticmethod
    def _part(kept: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
        named = {n: a for n, a in kept.items() if n.startswith(prefix)}
        return {name.removeprefix(prefix): array.copy() for name, array in named.items()}


def answered_records(device: Device, verb: str, content: Any) -> dict[str, Any]:
    """Return records of an answer: in one what comes in one."""
    if "joined" not in content:
        return dict(getattr(device, verb)(content))
    came: Any = {"turn": {}, "payload": {}}
    for key, value in content["joined"].items():
        record, _, inner = key.partition(".")
        if record == "payload":
            value = Array("uint8", (len(value),), SCHEMA, value)
        came.setdefault(record, {})[inner or key] = value
    said: Any = {}
    for name, record in getattr(device, verb)(came).items():
        if name == "payload":
            said[name] = record[name].data
        else:
            said |= {f"{name}.{key}": value for key, value in record.items()}
    return {"joined": ConfigRecord(said)}


def answered(verb: str, message: Message, context: Context) -> Message:
    """Answer a message of Flower's."""
    records = answered_records(Device(context), verb, message.content)
    return Message(RecordDict(records), reply_to=message)


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer the handshake."""
    return answered("query", message, context)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer a round."""
    return answered("train", message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Answer an evaluation."""
    return answered("evaluate", message, context)
