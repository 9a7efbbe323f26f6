"""What a curious server learns of a person from what its device sends, by two attacks.

Membership inference: is a window of a person one that its model was trained on? Judged by the loss
alone, area under the curve (0.5 is guessing), mean over people: with the model as the server
receives it, and with the personal model, which only a stolen device shows. Prototype inversion: a
class's prototype turned back into the class's mean in the data's own units: root mean square error
in units of the federation's deviation (0 is exact), by the noise on prototypes. Beside it
membership by the fused model: FedSub's after a download, in clusters that mix people (dbi-capped,
overlapping-any), as its owner has it, and as a peer sees it who has its own fused model alone.
"""

from collections.abc import Callable, Mapping
from statistics import fmean

import numpy as np
import torch
from script import REAL, read_arguments
from sklearn.metrics import roc_auc_score
from torch import Tensor
from trained import first_people

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.cohort import Cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.stacks import inputs
from fedsub_core.data.standardise import apply
from fedsub_core.methods.table import METHODS
from fedsub_core.models.model import Params
from fedsub_core.options import Value
from fedsub_core.training.objectives import cross_entropy
from strategies.parts.roster import Roster
from strategies.strategy import PersonalizedStrategy

TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "1", "--sigmas", "0", "1"]
CLIP = 10.0
#: Fused models, tested as they come.
MIXING: dict[str, Value] = {
    "fedsub.k-selection": "dbi-capped",
    "fedsub.fusion": "overlapping-any",
    "fedsub.tested": "received",
}
LINES = (*(f"{name} " for name in METHODS), "sigma 0 ", "sigma 1 ")


def trained(
    people: Federation, keys: Mapping[str, Value], name: str
) -> tuple[PersonalizedStrategy, CohortGrid]:
    """Return both halves of a method after its last round."""
    config = read_config(None, {**keys, "method": name, "beside": ""})
    grid, strategy = build_grid(config, name, people), build_strategy(config, name)
    strategy.start(grid)
    return strategy, grid


def losses(cohort: Cohort, i: int, params: Params, strategy: PersonalizedStrategy) -> list[Tensor]:
    """Return the losses of a person's training and test windows, by the `i`-th of `params`."""
    scaling = strategy.population.agreed.scaling
    one = {name: tensor[i : i + 1] for name, tensor in params.items()}
    found = []
    for part in cohort.data.at(strategy.finished_rounds, scaling):
        scale = None if part.scale is None else part.scale[i : i + 1]
        scaled = inputs(part.x[i : i + 1, : part.counts[i]], scale)
        y = part.y[i : i + 1, : part.counts[i]]
        with torch.no_grad():
            learner = cohort.learner
            # The server gets one model, even where a person's predictor has more.
            whole = one.keys() == learner.predictor.tensor_shapes.keys()
            logits = (learner.predictor if whole else learner.model).forward(one, scaled)
        found.append(cross_entropy(logits, y)[0])
    return found


#: Of a cohort: the models that an attacker looks at, stacked.
Models = Callable[[Cohort], Params]


def membership(
    strategy: PersonalizedStrategy, grid: CohortGrid, of: Models, away: int = 0
) -> float:
    """Return the mean area under the curve over people, by the model of who is `away` places on."""
    areas = []
    for cohort in grid.cohorts:
        params = of(cohort)
        theirs = {name: tensor.roll(-away, 0) for name, tensor in params.items()}
        for i in range(len(cohort.clients)):
            inside, outside = losses(cohort, i, theirs, strategy)
            labels = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
            areas.append(roc_auc_score(labels, -torch.cat([inside, outside]).numpy()))
    return fmean(areas)


def sent(cohort: Cohort) -> Params:
    """Return the models as the server receives them."""
    return cohort.learner.get(cohort.state, cohort.learner.models[0])


def personal(cohort: Cohort) -> Params:
    """Return the models that stay on devices."""
    return cohort.learner.predicted_by(cohort.state)


def fused(strategy: PersonalizedStrategy) -> Models:
    """Return a function of a cohort: its clients' models after the next download."""
    turn, scaling = strategy.turn(strategy.finished_rounds), strategy.population.agreed.scaling

    def received(cohort: Cohort) -> Params:
        names = [client.client for client in cohort.clients]
        downloads = strategy.tested_downloads(names)
        state = cohort.personalised(turn, scaling, range(len(names)), downloads)
        return cohort.learner.predicted_by(state)

    return received


def inversion(strategy: PersonalizedStrategy, grid: CohortGrid) -> float:
    """Return the error of class means that the server computes from its cache."""
    assert strategy.state is not None
    state, agreed = strategy.state, strategy.population.agreed
    assert agreed.scaling is not None
    place, errors = Roster.of(state["clients"]).place, []
    for cohort in grid.cohorts:
        for client in cohort.clients:
            held = client.at(strategy.finished_rounds)
            row = place[client.client]
            for label in state["holds"][row].nonzero().flatten().tolist():
                guess = state["prototypes"][row, label].numpy()
                mean = apply(agreed.scaling, held.train_x[held.train_y == label]).mean(0)
                errors.append(float(np.square(guess - mean.ravel()).mean()))
    return float(fmean(errors) ** 0.5)


def macro_f1(strategy: PersonalizedStrategy, grid: CohortGrid) -> float:
    """Return the mean over people after the last round."""
    turn, scaling = strategy.turn(strategy.finished_rounds), strategy.population.agreed.scaling
    found = []
    for cohort in grid.cohorts:
        names = [client.client for client in cohort.clients]
        received = strategy.tested_downloads(names)
        state = cohort.personalised(turn, scaling, range(len(names)), received)
        scores = cohort.evaluate(turn, scaling, range(len(names)), state)
        found += scores.macro_f1.tolist()
    return fmean(found)


def main() -> None:
    given = read_arguments(
        TINY, data=f"{REAL}/wisdm", clients=36, rounds=30, lr=0.05, sigmas=[0, 0.5, 1, 2]
    )
    people = first_people(given.data, given.clients)
    names = list(people.clients)
    keys: dict[str, Value] = {"rounds": given.rounds, "lr": given.lr, "device": "cpu"}
    keys["standardise"] = "federation"  # as the printed tables were measured
    print(f"{given.data}: {len(names)} people, {given.rounds} rounds, lr {given.lr:g}")
    print("membership, area under the curve   model sent  personal model   macro F1")
    for name, card in METHODS.items():
        agreed = {f"{name}.{need}": True for need in card.needs}
        strategy, grid = trained(people, keys | agreed, name)
        # Where the server's model goes into the first of a device's, that one is sent, too.
        ways = (card.sends, card.receives)
        parameters = set(strategy.model.parameter_shapes)
        whole = all(parameters <= set(way(strategy.model, strategy.hyper)) for way in ways)
        seen = f"{membership(strategy, grid, sent):.3f}" if whole else "-"
        own = f"{membership(strategy, grid, personal):.3f}"
        print(
            f"{name} ".ljust(34), f"{seen:>11}{own:>16}{macro_f1(strategy, grid):11.3f}", flush=True
        )
        grid.close()
    print(
        f"prototypes, Gaussian noise, clipped to {CLIP:g}   error of class means   macro F1"
        "   membership, fused   by a peer   macro F1"
    )
    for sigma in given.sigmas:
        noise: dict[str, Value] = {
            "fedsub.prototype-noise": "gaussian",
            "fedsub.prototype-clip": CLIP,
            "fedsub.prototype-sigma": sigma,
        }
        chosen = keys | (noise if sigma else {})
        strategy, grid = trained(people, chosen, "fedsub")
        line = f"{inversion(strategy, grid):18.3f}{macro_f1(strategy, grid):11.3f}"
        grid.close()
        strategy, grid = trained(people, chosen | MIXING, "fedsub")
        models = fused(strategy)
        ours, peers = (membership(strategy, grid, models, away) for away in (0, 1))
        line += f"{ours:20.3f}{peers:12.3f}{macro_f1(strategy, grid):11.3f}"
        grid.close()
        print(f"sigma {sigma:g} ".ljust(44), line, flush=True)


if __name__ == "__main__":
    main()
