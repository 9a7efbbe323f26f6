"""What a device keeps between two messages, as one block of bytes that notices damage.

It holds all that a device needs to go on after any crash: the learner's state, the reply to the
last round (asked again, it answers again and trains nothing), what it remembers of its file; and
all that is needed to use the personal model without a server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedsub_client.checksum import checksum
from fedsub_client.file_history import FileHistory
from fedsub_client.learner import Report, State
from fedsub_client.model_file import model_bytes, model_of
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import OtherRelease, RunError, cut
from fedsub_core.pytorch import Tensor, as_numpy, as_tensor, load_tensors, save_tensors
from fedsub_core.version import VERSION

#: The state's own version, raised where a release of before could not read it: a fact or a group of
#: tensors that lacks is none yet. Of another layout nothing is guessed; `facts`, `digest` and the
#: layout's number in the facts stand where they are in all of them.
LAYOUT = 3


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
    levels : of a secure sum, by which the reply was rounded: weight and each of
        :class:`fedsub_core.secure.quantise.Levels`; None where it went by itself.
    once, made_of : what the reply added to that sum, and a hash of what the device was told then
        that it was made of (:class:`fedsub_core.secure.transcript.Origin`).
    finished : whether that round was the last one that the run was to have.
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
    levels: tuple[int, int] | None = None
    once: str = ""
    made_of: str = ""
    finished: bool = False

    def is_of(self, run: str, method: str) -> bool:
        """Whether it is the state of a run's method."""
        return (self.run, self.method) == (run, method)

    def to_bytes(self) -> bytes:
        """Return all of it as one safetensors file."""
        facts: dict[str, Any] = {
            "layout": LAYOUT,
            "fedsub": VERSION,
            "client": self.client,
            "run": self.run,
            "method": self.method,
            "round": self.round,
            "sizes": self.file.sizes,
            "digest": self.file.digest.hex(),
            "report": dict(self.report),
        }
        if self.levels is not None:
            facts |= {"levels": self.levels, "once": self.once, "made_of": self.made_of}
        if self.finished:
            facts["finished"] = True
        tensors = {f"state/{name}": tensor for name, tensor in self.state.items()}
        tensors["reply"] = _tensor(self.reply)
        if self.model is not None:
            tensors["model"] = _tensor(model_bytes(self.model))
        tensors["facts"] = _tensor(json.dumps(facts).encode())
        tensors["digest"] = _tensor(checksum(tensors))
        return save_tensors(tensors)

    @classmethod
    def of_bytes(cls, data: bytes) -> Saved:
        """Inverse of :meth:`to_bytes`.

        Raises OtherRelease where they are whole, and written in a layout, or hold a model, that
        this release does not read. Raises RunError where the bytes are damaged.
        """
        try:
            tensors = load_tensors(data)
            if not {"digest", "facts"} <= tensors.keys():
                raise ValueError("tensors alone, without a checksum and facts")
            written = bytes(as_numpy(tensors.pop("digest")))
            if written != checksum(tensors):
                raise ValueError("its checksum is wrong")
            facts = json.loads(bytes(as_numpy(tensors.pop("facts"))))
            layout = facts["layout"]
            if layout != LAYOUT:
                raise OtherRelease(
                    f"written in layout {layout} by fedsub {cut(facts.get('fedsub', '(early)'))}, "
                    f"expected {LAYOUT} as fedsub {VERSION} reads it"
                )
            return cls(
                facts["client"],
                facts["run"],
                facts["method"],
                facts["round"],
                FileHistory(tuple(facts["sizes"]), bytes.fromhex(facts["digest"])),
                _group(tensors, "state/"),
                bytes(as_numpy(tensors["reply"])),
                facts["report"],
                model_of(bytes(as_numpy(tensors["model"]))) if "model" in tensors else None,
                tuple(facts["levels"]) if "levels" in facts else None,
                facts.get("once", ""),
                facts.get("made_of", ""),
                bool(facts.get("finished", False)),
            )
        except RunError:
            raise
        except Exception as error:  # safetensors has errors of its own for each kind of damage
            raise RunError(f"damaged ({type(error).__name__}: {error})") from error


def _group(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _tensor(data: bytes) -> Tensor:
    return as_tensor(np.frombuffer(data, np.uint8).copy())
