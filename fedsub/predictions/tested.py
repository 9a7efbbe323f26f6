"""The tested samples of a finished run, and what each person's model says of them.

Models are those that the run left, so nothing is trained or sent. Where models stay on devices, so
do their predictions.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub.engines.simulation import split_clients, unseen_people
from fedsub.studies.run import load_data
from fedsub_client.loaded_model import load_model
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.config.named_code import ENCODER, MODEL
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.errors import RunError, listed
from fedsub_server.results import method_summaries
from fedsub_server.run_folder import DATABASE_FILE, MODELS, RUN_FILE
from fedsub_server.rundb import RunDatabase

#: Parts of a person's samples; those in none have no label, or were dropped by ``train-share``.
TRAINING, VALIDATION, TEST, UNUSED = "training", "validation", "test", "unused"
_NAMED = 5


@dataclass(frozen=True, eq=False)
class Predicted:
    """A person's tested samples and the probabilities that its model gives them.

    Parameters
    ----------
    person, method : whose model it is, and how it was trained.
    seed, round : of the run; the round in which the models were last tested.
    fold : of the run; "" where it tests a share. People who were left out have their names.
    index : int64 [n], rows of the person's file, from 0.
    t : float64 [n], seconds; None where the file has no times.
    y : int64 [n], true classes; of a target float64 [n], true values.
    probabilities : float32 [n, classes]; each row sums to 1. Of a target [n, 1], predicted values.
    """

    person: str
    method: str
    seed: int
    round: int
    index: NDArray[np.int64]
    t: NDArray[np.float64] | None
    y: NDArray[Any]
    probabilities: NDArray[np.float32]
    fold: str = ""


@dataclass(frozen=True, eq=False)
class RunSamples:
    """A run's folder with the data that it ran on.

    Parameters
    ----------
    folder : the run's.
    given : the data, where they do not lie where the run found them; None: they do.
    code : places of code that makes the model and the encoder, by option, where files name it.

    Raises RunError if there is no run, or the data are not those of the run.
    """

    folder: Path
    given: Federation | None = None
    code: dict[str, str] = field(default_factory=dict)

    @cached_property
    def config(self) -> RunConfig:
        """The run's configuration."""
        if not (self.folder / RUN_FILE).is_file():
            raise RunError(f"{self.folder}: got no {RUN_FILE}, expected a run's folder")
        return read_config(self.folder / RUN_FILE)

    @property
    def fold(self) -> str:
        """The fold that the run tests, or who was left out by name; "" of a share."""
        return self.config.fold or ",".join(self.config.kept_out)

    @cached_property
    def federation(self) -> Federation:
        """The data, those of the run to the last bit."""
        config, found = self.config, self.given or load_data(self.config, self.folder)
        now = fingerprints(found)
        for name in config.methods:
            path = self.folder / name / DATABASE_FILE
            if not path.is_file():
                continue
            with RunDatabase(path) as database:
                known = json.loads(database.meta()["config"])
            had = {key: value for key, value in known.items() if key.startswith("data: ")}
            if other := sorted(key for key in had.keys() | now if had.get(key) != now.get(key)):
                names = [key.removeprefix("data: ") for key in other]
                raise RunError(
                    f"{self.folder}: got data that differ from the run's: {listed(names, _NAMED)}; "
                    "expected the samples that it trained on"
                )
        return found

    @cached_property
    def people(self) -> dict[str, SplitClient]:
        """Everybody's samples, divided as in the run."""
        config = self.config
        found = split_clients(config.split_settings, self.federation, config.capacity_settings)
        return {one.client: one for one in found}

    def parts(self) -> Iterator[tuple[str, NDArray[np.str_]]]:
        """Yield each person and the part of each of its samples, [n] in the order of its file."""
        for client, one in self.people.items():
            part = np.full(len(one.x), UNUSED, dtype="<U10")
            part[one.train], part[one.test] = TRAINING, TEST
            if one.validation is not None:
                part[one.validation] = VALIDATION
            yield client, part

    def predictions(self, methods: Sequence[str] = ()) -> Iterator[Predicted]:
        """Yield the predictions of each tested person by each method.

        Parameters
        ----------
        methods : some of the run's; (): all.

        Raises RunError if a method is not the run's, has not been tested, or a tested person has no
        model here.
        """
        there = {one.method: one for one in method_summaries(self.folder)}
        for name in methods or self.config.methods:
            if name not in there or there[name].evaluated_round is None:
                tested = [m for m, one in there.items() if one.evaluated_round is not None]
                expected = listed(tested, _NAMED)
                raise RunError(
                    f"{self.folder}: got method {name!r}, expected one that was tested: "
                    f"{expected or 'none was'}"
                )
            round = there[name].evaluated_round
            assert round is not None
            for client in unseen_people(self.config, self.federation) or self.people:
                yield self._of(name, client, round)

    def _of(self, method: str, client: str, round: int) -> Predicted:
        path = self.folder / method / MODELS / f"{client}.safetensors"
        if not path.is_file():
            raise RunError(
                f"{path}: client {client!r}, round {round}: got no model, expected that of a "
                "tested person: where models stay on devices, only these predict"
            )
        model = load_model(path, self.code.get(MODEL, ""), self.code.get(ENCODER, ""))
        one, target = self.people[client].at(round), self.federation.card.target
        y = one.test_y if target is None else self.federation.clients[client].y[one.test]
        return Predicted(
            client,
            method,
            self.config.seed,
            round,
            one.test,
            None if one.t is None else one.t[one.test],
            y,
            _probabilities(model, one),
            self.fold,
        )


def _probabilities(model: PersonalModel, one: SplitClient) -> NDArray[np.float32]:
    """Return the probabilities of the tested samples; a graph is seen whole."""
    if one.edges is not None:
        return model.probabilities(one.x, "test part", one.edges)[one.test]
    return model.probabilities(one.test_x, "test part")
