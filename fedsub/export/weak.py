"""The model that a weak device would get: a run's, or a part of a person's own."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learner import Learner
from fedsub_client.personal_model import PersonalModel
from fedsub_core.config.named_code import check_named
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.methods.table import method
from fedsub_core.models.chain import Chain
from fedsub_core.models.held import Held
from fedsub_core.models.model import Model
from fedsub_core.models.unbuilt import Unbuilt
from fedsub_core.models.units import first_units, units_in
from fedsub_core.wire.bundles import Floats
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase
from strategies.rounds.other_downloads import next_download

#: Where nothing names code.
NOTHING: Mapping[str, str] = MappingProxyType({})


def weak_model(
    own: PersonalModel,
    capacity: float,
    run: Path | None = None,
    given: Mapping[str, str] = NOTHING,
) -> PersonalModel:
    """Return the model of a device that holds a share of what `own` is or was trained as a part of.

    By the method's own rule, as the run would send it next, where devices hold what they are sent,
    or the method says how wide each layer of theirs is; else the first units of each hidden layer
    of the person's model.

    Parameters
    ----------
    own : the person's, whose data, classes and standardisation it is for.
    capacity : in (0, 1].
    run : the folder that holds the method's folder; None: nothing but the person's model is there,
        and the share is one of that.
    given : what names code, as the user gives it, by option.

    Raises ConfigError if the run names code that is not known
    (:mod:`fedsub_core.models.known_code`), the method's models have no part that predicts alone,
    devices choose theirs by their own samples, or `own` is smaller than the part. Raises RunError
    if the run's state cannot be read.
    """
    card = method(own.method)
    if own.described is not None or card.weak.narrow == "encoder":
        raise ConfigError(
            f"capacity: got {capacity:g} of {own.method}'s model, expected the model of a method "
            "that predicts by layers of units alone: a smaller one of this is solved or mixed anew "
            "on a device of that capacity"
        )
    if card.weak.has_rule and run is None:
        raise ConfigError(
            f"capacity: got {capacity:g} of {own.method}'s model without its run, expected --run: "
            "how wide each layer of a smaller one is follows from what the server knows"
        )
    if card.weak.has_rule and card.load_learner().arrived is not Learner.arrived:
        raise ConfigError(
            f"capacity: got {capacity:g} of {own.method}'s model, expected the model of a method "
            "whose server says which units are sent: a device chooses these by its own samples"
        )
    if run is not None and card.weak.sends_all:
        return _sent(own, capacity, run, given)
    return _first_units(own, capacity, run, given)


def _config(run: Path, given: Mapping[str, str]) -> RunConfig:
    """Return a run's configuration; raises ConfigError if it names code that is not known."""
    config = read_config(run / RUN_FILE)
    check_named(config, run / RUN_FILE, given)
    return config


def _sent(
    own: PersonalModel, capacity: float, run: Path, given: Mapping[str, str]
) -> PersonalModel:
    """Return the model that the run would send next, in place of the person's own parameters."""
    config = _config(run, given)
    with RunDatabase(run / own.method / DATABASE_FILE) as database:
        round, state = database.load()
    if not round or SERVER not in state:
        raise RunError(f"{run}: got no finished round of {own.method}, expected one at least")
    settings = config.server_settings(own.method)
    model, sent = next_download(settings, round, dict(state[SERVER]), own.client, capacity)
    if isinstance(model, Chain):
        model = model.path  # branches do not predict
    params: dict[str, Tensor] = {}
    for name, shape in model.tensor_shapes.items():
        part = sent.tensors.get(name)
        if not isinstance(part, Floats):
            raise ConfigError(
                f"capacity: {own.method} sends no {name} (norm = {config.norm}), expected all that "
                "predicts: what stays on devices has the size that they hold"
            )
        params[name] = torch.zeros(shape)
        part.at.put(params[name], torch.from_numpy(np.array(part.values)))
    if method(own.method).weak.has_rule:
        # A device may have room for more units than it is sent: the others are 0, and left out.
        model, places = model.narrow(units_in(model.unit_groups, sent.tensors))
        params = {name: places[name].take(params[name]) for name in model.tensor_shapes}
    return replace(own, round=round, params=params, architecture=model)


def _first_units(
    own: PersonalModel, capacity: float, run: Path | None, given: Mapping[str, str]
) -> PersonalModel:
    """Return the person's model with the first units of each hidden layer alone."""
    model = own.architecture
    assert not isinstance(model, Unbuilt)  # it was built when it was loaded
    whole = model if run is None else _whole(own, _config(run, given))
    units = first_units(whole, capacity)
    sizes = {group.name: group.size for group in model.unit_groups}
    lacking = {name: size for name, size in sizes.items() if size < len(units[name])}
    if lacking:
        name, size = next(iter(lacking.items()))
        raise ConfigError(
            f"client {own.client!r}: capacity: got {capacity:g}, {len(units[name])} units of "
            f"{name}, expected {size} at most: its own device held no more"
        )
    small, places = model.narrow(units)
    params = {name: places[name].take(own.params[name]) for name in small.tensor_shapes}
    return replace(own, params=params, architecture=small)


def _whole(own: PersonalModel, config: RunConfig) -> Model:
    """Return the architecture of a device that holds everything."""
    settings = config.device_settings(own.method)
    classes = len(own.card.classes)
    return Held.of(method(own.method), settings, settings.seed, own.shape, classes).model
