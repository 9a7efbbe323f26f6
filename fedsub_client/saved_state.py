"""What a device keeps between two messages, as one block of bytes that notices damage.

It holds all that a device needs to go on after any crash: the learner's state, the reply to the
last round (asked again, it answers again and trains nothing), what it remembers of its file; and
all that is needed to use the personal model without a server.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub_client.file_history import FileHistory
from fedsub_client.learners.base import Report, State
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError
from fedsub_core.models.chain import Params

#: Of the layout below; a device of another one does not guess.
LAYOUT = 2


@dataclass(frozen=True)
class PersonalModel:
    """A person's model as it is evaluated, exported and used.

    Parameters
    ----------
    params : without a client axis, by their names in the architecture.
    kind : of model, from which the architecture follows; never ``auto``.
    shape : of one sample.
    card : classes, features and units of the data it was trained on.
    scaling : what features are standardised with; None where they are not.
    experts : of a mixture (:class:`fedsub_core.models.mixture.Mixture`); () is one model.
    """

    params: Params
    kind: str
    shape: tuple[int, ...]
    card: Card
    scaling: Scaling | None
    experts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Saved:
    """A device's state after its last round.

    Parameters
    ----------
    client, run : whose it is, and the name of the server's run it belongs to.
    method : the run's method.
    round : the last round trained; 0 is none.
    file : what is remembered of the device's file.
    state : the learner's, and what was remembered of the wire.
    reply : the upload of the last round, as it was sent.
    report : what was reported beside it.
    model : the personal model, once there is one.
    """

    client: str
    run: str
    method: str
    round: int
    file: FileHistory
    state: State = field(default_factory=dict)
    reply: bytes = b""
    report: Report = field(default_factory=dict)
    model: PersonalModel | None = None

    def to_bytes(self) -> bytes:
        """Return all of it as one safetensors file."""
        facts: dict[str, Any] = {
            "layout": LAYOUT,
            "client": self.client,
            "run": self.run,
            "method": self.method,
            "round": self.round,
            "sizes": self.file.sizes,
            "digest": self.file.digest.hex(),
            "report": dict(self.report),
        }
        tensors = {f"state/{name}": tensor.contiguous() for name, tensor in self.state.items()}
        tensors["reply"] = _tensor(self.reply)
        if self.model is not None:
            facts["model"] = {
                "kind": self.model.kind,
                "shape": self.model.shape,
                "card": card_table(self.model.card),
                "experts": self.model.experts,
            }
            for name, tensor in self.model.params.items():
                tensors[f"model/{name}"] = tensor.clone(memory_format=torch.contiguous_format)
            if self.model.scaling is not None:
                tensors["scaling/mean"] = torch.from_numpy(self.model.scaling.mean.copy())
                tensors["scaling/std"] = torch.from_numpy(self.model.scaling.std.copy())
        tensors["facts"] = _tensor(json.dumps(facts).encode())
        tensors["digest"] = _tensor(_digest(tensors))
        return save_tensors(tensors)

    @classmethod
    def of_bytes(cls, data: bytes) -> Saved:
        """Inverse of :meth:`to_bytes`.

        Raises
        ------
        RunError
            Where the bytes are damaged, or were written in another layout.
        """
        try:
            tensors = load_tensors(data)
            written = bytes(tensors.pop("digest").numpy())
            if written != _digest(tensors):
                raise ValueError("its checksum is wrong")
            facts = json.loads(bytes(tensors.pop("facts").numpy()))
            layout = facts["layout"]
            if layout != LAYOUT:
                raise RunError(f"written in layout {layout}, expected {LAYOUT}")
            return cls(
                facts["client"],
                facts["run"],
                facts["method"],
                facts["round"],
                FileHistory(tuple(facts["sizes"]), bytes.fromhex(facts["digest"])),
                _group(tensors, "state/"),
                bytes(tensors["reply"].numpy()),
                facts["report"],
                _model(facts.get("model"), tensors),
            )
        except RunError:
            raise
        except Exception as error:  # safetensors has errors of its own for each kind of damage
            raise RunError(f"damaged ({type(error).__name__}: {error})") from error


def _model(facts: dict[str, Any] | None, tensors: dict[str, Tensor]) -> PersonalModel | None:
    if facts is None:
        return None
    scaling = None
    if "scaling/mean" in tensors:
        scaling = Scaling(tensors["scaling/mean"].numpy(), tensors["scaling/std"].numpy())
    params, card = _group(tensors, "model/"), parse_card(facts["card"], Path("the saved state"))
    shape, experts = tuple(facts["shape"]), tuple(facts.get("experts", ()))
    return PersonalModel(params, facts["kind"], shape, card, scaling, experts)


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _digest(tensors: dict[str, Tensor]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()
