"""People's models after the last round, as files: what many have alike in one beside theirs."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

from fedsub.engines.in_process_grid import SimulationGrid
from fedsub_client.common_tensors import COMMON, CommonTensors
from fedsub_client.model_file import model_bytes
from fedsub_core.files import make_folder, remove_drafts, sync_all, write_whole
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.strategy import PersonalizedStrategy

#: Bytes that a common file must save: a person's file is then no longer the whole model.
WORTH = 2**22


def save_models(grid: SimulationGrid, strategy: PersonalizedStrategy, folder: Path) -> None:
    """Write every client's model, as it is evaluated, to ``<folder>/<client>.safetensors``.

    What many were sent alike, and have in their models to the bit, lies in ``<folder>/common/``.

    Raises RunError if something cannot be written.
    """
    make_folder(folder)
    remove_drafts(folder)
    turn, agreed = strategy.turn(strategy.finished_rounds), strategy.population.agreed
    clients = [key.removeprefix("client/") for key in grid.state()]
    received = dict(zip(clients, strategy.tested_downloads(clients), strict=True))
    common, used = _common(received), set[str]()
    for model in grid.personal_models(turn, agreed.scaling, received):
        alike = common.get(id(received[model.client].tensors))
        if alike is not None and alike.name not in used and alike.alike(model.params):
            make_folder(folder / COMMON)
            remove_drafts(folder / COMMON)
            write_whole(folder / COMMON / alike.name, alike.to_bytes(), sync=False)
            used.add(alike.name)
        write_whole(folder / f"{model.client}.safetensors", model_bytes(model, alike), sync=False)
    sync_all()  # once: of many people one after another takes most of the time
    for path in (folder / COMMON).glob("*.safetensors"):
        if path.name not in used:  # of the run before it was resumed
            path.unlink()


def _common(received: Mapping[str, Bundle]) -> dict[int, CommonTensors]:
    """Return the tensors that are worth a common file, by their identity among those sent."""
    people = Counter(id(bundle.tensors) for bundle in received.values())
    found: dict[int, CommonTensors] = {}
    for bundle in received.values():
        key = id(bundle.tensors)
        if key in found or people[key] == 1:
            continue
        tensors = {
            name: torch.from_numpy(part.values.copy())
            for name, part in bundle.tensors.items()
            if isinstance(part, Floats) and part.at.everywhere
        }
        if (people[key] - 1) * sum(tensor.nbytes for tensor in tensors.values()) >= WORTH:
            found[key] = CommonTensors.of(tensors)
    return found
