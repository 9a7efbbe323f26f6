"""A person's model out of a device's state: loaded, checked and used without any server.

Nothing is written, moved or locked: a device replaces its state as a whole, so it may train
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_client.new_samples import check_samples
from fedsub_client.saved_state import PersonalModel, Saved
from fedsub_client.store import PREVIOUS_FILE, STATE_FILE
from fedsub_core.data.standardise import apply
from fedsub_core.errors import DataError, FedSubError, RunError
from fedsub_core.models.chain import Model
from fedsub_core.models.kinds import build_model
from fedsub_core.models.mixture import Mixture

#: Samples in one forward pass: a convolution's patches are several times the size of its input.
BATCH = 1024


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A person's model, ready for use, and where it comes from.

    Parameters
    ----------
    file : the device's state.
    client, method : whose it is, and how it was trained.
    round : the last one that it was trained in.
    model : parameters, architecture, card and standardisation.
    """

    file: Path
    client: str
    method: str
    round: int
    model: PersonalModel

    @cached_property
    def architecture(self) -> Model:
        """The chain of layers of the model, or of each of a mixture's."""
        return build_model(self.model.kind, self.model.shape, len(self.model.card.classes))

    @cached_property
    def predictor(self) -> Model | Mixture:
        """What the parameters belong to, and computes with them."""
        of, experts = self.architecture, self.model.experts
        return Mixture(of, experts) if experts else of

    def probabilities(self, x: NDArray[Any], source: str = "x") -> NDArray[np.float32]:
        """Return the probability of every class, ``[n, classes]``; each row sums to 1.

        Parameters
        ----------
        x : float or integer [n, *features]
            In the card's units, not standardised.
        source : str
            Where `x` comes from, for the messages.

        Raises
        ------
        DataError
            Where `x` does not fit the model: shape, type, or a value that is not finite.
        """
        where, card = f"{source}: client {self.client!r}", self.model.card
        x = check_samples(x, card, self.model.shape, where)
        starts = range(0, len(x), BATCH)
        found = np.concatenate([self._forward(x[i : i + BATCH]) for i in starts])
        wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
        if len(wrong):
            raise DataError(
                f"{where}: x, row {wrong[0]}: got values of up to {np.abs(x[wrong[0]]).max():g}, "
                f"for which no probability is finite; expected {card.units or 'the units'} of the "
                "training data. Check the units."
            )
        return found

    def _forward(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        scaling = self.model.scaling
        # An overflow ends in a probability that is not finite, which is refused.
        with np.errstate(over="ignore"):
            scaled = x if scaling is None else apply(scaling, x)
        params = {name: tensor.unsqueeze(0) for name, tensor in self.model.params.items()}
        with torch.inference_mode():
            logits = self.predictor.forward(params, torch.from_numpy(scaled).unsqueeze(0))
            probabilities: NDArray[np.float32] = logits[0].softmax(1).numpy()
        return probabilities


def load_model(where: Path | str) -> LoadedModel:
    """Return the person's model in a device's state.

    Parameters
    ----------
    where : Path or str
        A device's folder ``<state-dir>/<client-id>``, a ``<state-dir>`` of one client, or the
        state file itself.

    Raises
    ------
    RunError
        Where there is no state or several, it is damaged, or it holds no model that can be used.
    """
    file = _state_file(Path(where))
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file}: cannot be read ({error}). Check its permissions") from error
    try:
        saved = Saved.of_bytes(data)
    except RunError as error:
        raise RunError(
            f"{file}: {error}; expected the state that a device saved (parameters alone, such as a "
            "simulation's models/, are none). Take another copy, or let the device train a round"
        ) from error
    if saved.model is None:
        raise RunError(
            f"{file}: client {saved.client!r}: got a state without a model (round {saved.round}), "
            "expected one that was trained. Let the device train a round"
        )
    loaded = LoadedModel(file, saved.client, saved.method, saved.round, saved.model)
    _check(loaded)
    return loaded


def _state_file(where: Path) -> Path:
    if where.is_file():
        return where
    if (where / STATE_FILE).is_file():
        return where / STATE_FILE
    found = sorted(where.glob(f"*/{STATE_FILE}"))
    if len(found) == 1:
        return found[0]
    expected = f"expected {STATE_FILE}, as in <state-dir>/<client-id>"
    if found:
        clients = ", ".join(file.parent.name for file in found)
        raise RunError(
            f"{where}: got {len(found)} clients ({clients}), expected one. Give a client's folder, "
            f"such as {found[0].parent}"
        )
    if not where.is_dir():
        raise RunError(f"{where}: no such folder; {expected}. Check the path")
    if (where / PREVIOUS_FILE).is_file():
        raise RunError(
            f"{where}: no state of this run yet; {expected}. Wait for its first round, or give the "
            f"run before it: {where / PREVIOUS_FILE}"
        )
    raise RunError(f"{where}: no state; {expected}. Check the path, or let the device train first")


def _check(loaded: LoadedModel) -> None:
    """Refuse a model of another architecture than this version builds, or one that diverged."""
    where, model = f"{loaded.file}: client {loaded.client!r}", loaded.model
    try:
        expected = dict(loaded.predictor.parameter_shapes)
    except FedSubError as error:
        raise RunError(f"{where}: {error}. Use the version of FedSub that saved it") from error
    tensors = dict(model.params)
    if model.scaling is not None:
        for name, values in (("mean", model.scaling.mean), ("std", model.scaling.std)):
            tensors[name], expected[name] = torch.from_numpy(values), (model.shape[0],)
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if got != expected:
        raise RunError(
            f"{where}: got parameters {got}, expected {expected}. Use the version of FedSub that "
            "saved it"
        )
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if isinstance(loaded.predictor, Mixture):
        broken = loaded.predictor.fatal(model.params, broken)
    if broken:
        raise RunError(
            f"{where}: {broken[0]}: got numbers that are not finite, expected a trained model: "
            "training diverged. Train again with a lower lr"
        )
