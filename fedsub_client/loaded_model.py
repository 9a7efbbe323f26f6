"""A person's model from the disk: loaded, checked, and used without any server.

Nothing is written, moved or locked: a device replaces its state as a whole, so it may train
meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsub_client.model_file import (
    FEATURE_MEAN,
    FEATURE_STD,
    OWN_PLACES,
    is_model_file,
    model_of,
    standard_tensors,
)
from fedsub_client.personal_model import PersonalModel
from fedsub_client.saved_state import Saved
from fedsub_client.state_files import kept_in
from fedsub_client.store import PREVIOUS_FILE, STATE_FILE
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.encoders.ranks_encoder import PLACES
from fedsub_core.errors import ConfigError, FedSubError, RunError
from fedsub_core.models.unbuilt import Unbuilt
from fedsub_core.pytorch import as_numpy
from fedsub_core.sealing import Locked, unseal


def load_model(where: Path | str, named: str = "", encoder: str = "") -> PersonalModel:
    """Return the person's model in a device's state, or in a file of its own.

    Parameters
    ----------
    where : Path or str
        A device's folder ``<state-dir>/<client-id>``, a ``<state-dir>`` of one client, the state
        file itself, or a model's file: ``<run>/<method>/models/<client>.safetensors`` of a
        simulation, or an export as safetensors.
    named : str
        ``package.module:builder`` or ``file.py:builder`` where such a builder made the model: a
        file names code, and does not run it.
    encoder : str
        The name of its encoder where that is a module, for the same reason.

    Raises RunError where there is no state or several, it is damaged, or it holds no model that can
    be used.
    """
    file = _file(Path(where))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file}: cannot be read ({error}). Check its permissions") from error
    try:
        data = unseal(data, file.parent.name)
        if is_model_file(data):
            model = model_of(data, file.parent)
        else:
            saved = Saved.of_bytes(data)
            if saved.model is None:
                raise RunError(
                    f"client {saved.client!r}: got a state without a model (round {saved.round})"
                )
            model = saved.model
    except Locked as error:
        raise Locked(f"{file}: {error}") from error
    except RunError as error:
        raise RunError(
            f"{file}: {error}; expected a state that a device saved after training a round, or a "
            "model's file of this version. Take another copy, or train again"
        ) from error
    try:
        model = _built(model, named, encoder)
    except ConfigError as error:
        raise RunError(f"{file}: client {model.client!r}: {error}") from error
    check_usable(model, f"{file}: client {model.client!r}")
    return model


def _built(model: PersonalModel, named: str, encoder: str) -> PersonalModel:
    """Return the model with its module built, where it is one; see :meth:`Unbuilt.build`."""
    if isinstance(model.encoder, ModuleEncoder):
        model = replace(model, encoder=model.encoder.as_named(encoder))
    if not isinstance(model.architecture, Unbuilt):
        return model
    return replace(model, architecture=model.architecture.build(named))


def check_usable(model: PersonalModel, where: str) -> None:
    """Refuse parameters of another architecture than the file says, or that diverged.

    Raises RunError; it begins with `where`.
    """
    try:
        expected = dict(model.predictor.tensor_shapes)
    except FedSubError as error:
        raise RunError(f"{where}: {error}. Use the version of FedSub that saved it") from error
    tensors = dict(model.params)
    for name, tensor in standard_tensors(model).items():
        of_features = name in (FEATURE_MEAN, FEATURE_STD)
        seen = model.architecture.input_shape if of_features else model.shape
        tensors[name] = tensor
        expected[name] = (PLACES, *seen) if name == OWN_PLACES else (seen[0],)
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if got != expected:
        raise RunError(
            f"{where}: got parameters {got}, expected {expected}. Use the version of FedSub that "
            "saved it"
        )
    broken = [name for name, tensor in tensors.items() if not np.isfinite(as_numpy(tensor)).all()]
    broken = model.predictor.fatal(model.params, broken)
    if broken:
        raise RunError(
            f"{where}: {broken[0]}: got numbers that are not finite, expected a trained model: "
            "training diverged. Train again with a lower lr"
        )


def _file(where: Path) -> Path:
    if where.is_file():
        return where
    if (where / STATE_FILE).is_file():
        return where / STATE_FILE
    states = sorted(where.glob(f"*/{STATE_FILE}"))
    if len(states) == 1:
        return states[0]
    expected = f"expected {STATE_FILE}, as in <state-dir>/<client-id>"
    if states:
        clients = ", ".join(file.parent.name for file in states)
        raise RunError(
            f"{where}: got {len(states)} clients ({clients}), expected one. Give a client's "
            f"folder, such as {states[0].parent}"
        )
    if not where.is_dir():
        raise RunError(f"{where}: no such folder; {expected}. Check the path")
    before = [file for file in (where / PREVIOUS_FILE, *kept_in(where)) if file.is_file()]
    if before:
        newest = max(before, key=lambda file: file.stat().st_mtime_ns)
        raise RunError(
            f"{where}: no state of this run yet; {expected}. Wait for its first round, or give the "
            f"run before it: {newest}"
        )
    raise RunError(f"{where}: no state; {expected}. Check the path, or let the device train first")
