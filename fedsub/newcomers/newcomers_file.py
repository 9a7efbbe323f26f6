"""What newcomers get of a run as one file: a device that joins needs nothing else of the run.

Safetensors: the tensors of the download and everybody's standardisation. The metadata's one key,
``fedsub-newcomers``, says the rest as JSON, with a digest of all.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub.newcomers.finished_run import FinishedRun, ForNewcomers
from fedsub_client.checksum import checksum
from fedsub_core.data.card import card_table, parse_card
from fedsub_core.data.samples import facts_of, shape_with
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import OtherRelease, RunError
from fedsub_core.files import check_new, write_whole
from fedsub_core.wire.bundles import Bundle, Floats, Part

FORMAT = "fedsub-newcomers 1"
#: Under which key the facts are kept in the file's metadata.
FACTS = "fedsub-newcomers"
MEAN, STD, SENT = "standardise.mean", "standardise.std", "sent."
#: Sums of fewer people are not given away. Of one's sums all of its features follow, and of two
#: people's each of them can work out the other's.
FEWEST = 3


def write_newcomers(run: FinishedRun, path: Path, force: bool = False) -> ForNewcomers:
    """Write what newcomers get of a run; return it.

    Raises RunError if the sums are over fewer than :data:`FEWEST` people, `path` exists and not
    `force`, or it cannot be written.
    """
    check_new(path, force)
    if run.summed.people < FEWEST:
        raise RunError(
            f"{run.folder}: got sums over {run.summed.people} people, expected {FEWEST} at least: "
            "those of one are its data, and of two each can work out the other's"
        )
    given = run.for_person()
    write_whole(path, newcomers_bytes(given), read_newcomers)
    return given


def newcomers_bytes(given: ForNewcomers) -> bytes:
    """Return the file's bytes; the same for the same sums."""
    sent = {name: given.download.floats(name) for name in given.download.tensors}
    tensors = {f"{SENT}{name}": torch.tensor(array) for name, array in sent.items()}
    if given.scaling is not None:
        tensors |= {MEAN: torch.tensor(given.scaling.mean), STD: torch.tensor(given.scaling.std)}
    # Whom a card names of its capacities is nobody's business.
    card = None if given.card is None else card_table(replace(given.card, capacities=None))
    facts = {
        "format": FORMAT,
        "run": dict(given.flat),
        "classes": given.classes,
        "shape": given.shape,
        **facts_of(given.shape),
        "card": card,
        "round": given.round,
        "people": given.people,
        "version": given.download.version,
    }
    facts["digest"] = checksum(tensors, json.dumps(facts)).hex()
    return save_tensors(tensors, {FACTS: json.dumps(facts)})


def is_newcomers_file(path: Path) -> bool:
    """Return whether a file begins as one of these does, whole or not."""
    with path.open("rb") as file:
        return f'"{FACTS}"'.encode() in file.read(4096)


def read_newcomers(path: Path) -> ForNewcomers:
    """Return the sums for newcomers in a file.

    Raises RunError if it is none, is not whole, or was changed.
    """
    if not is_newcomers_file(path):
        raise RunError(
            f"{path}: got another file, expected one that `fedsub export --newcomers` wrote"
        )
    try:
        return _read(path.read_bytes(), path)
    except RunError:
        raise
    except Exception as error:  # safetensors has errors of its own for each kind of damage
        raise RunError(
            f"{path}: got a damaged file ({type(error).__name__}: {error}), expected one that "
            "`fedsub export --newcomers` wrote. Take another copy"
        ) from error


def _read(data: bytes, path: Path) -> ForNewcomers:
    length = int.from_bytes(data[:8], "little")
    facts, tensors = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][FACTS]), {}
    if facts["format"] != FORMAT:
        raise OtherRelease(f"{path}: got {facts['format']!r}, expected {FORMAT!r}")
    tensors = load_tensors(data)
    if bytes.fromhex(facts.pop("digest")) != checksum(tensors, json.dumps(facts)):
        raise ValueError("its digest is another")
    sent = {
        name.removeprefix(SENT): tensor for name, tensor in tensors.items() if name.startswith(SENT)
    }
    card = None if facts["card"] is None else parse_card(facts["card"], path)
    return ForNewcomers(
        facts["run"],
        tuple(facts["classes"]),
        shape_with(tuple(facts["shape"]), facts),
        Scaling(tensors[MEAN].numpy(), tensors[STD].numpy()) if MEAN in tensors else None,
        card,
        int(facts["round"]),
        int(facts["people"]),
        Bundle(version=int(facts["version"]), tensors=_parts(sent)),
    )


def _parts(sent: Mapping[str, Tensor]) -> dict[str, Part]:
    return {name: Floats(np.array(tensor.numpy())) for name, tensor in sent.items()}
