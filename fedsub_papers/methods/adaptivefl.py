"""AdaptiveFL: a pool of models, and clients that are chosen by what they could train so far."""

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.options import choice, option
from fedsub_papers.methods.slices import slice_card


@dataclass(frozen=True)
class AdaptiveFLHyperparameters(ReceivedHyperparameters):
    """The authors' code's widths."""

    small: float = option(0.4, "share of a layer's units in small models", above=0, below=1)
    medium: float = option(0.66, "share of a layer's units in medium models", above=0, below=1)
    starts: str = option(
        "1,2,3",
        "hidden layers, counted from 1, from which on small and medium models can be narrow",
        pattern=r"[1-9]\d*(,[1-9]\d*)*",
        like="whole numbers from 1 on, with commas",
    )
    weights: str = choice(
        "examples", "clients", doc="weight of an upload in means: its samples, or 1 for each client"
    )

    def widths(self) -> tuple[float, float]:
        """Return the shares of units of small and medium models."""
        return self.small, self.medium

    def starts_at(self) -> list[int]:
        """Return the layers from which on models are narrow."""
        return [int(start) for start in self.starts.split(",")]


def check(hyper: AdaptiveFLHyperparameters, rounds: int) -> None:
    """Raise a ConfigError where medium models are no larger than small ones."""
    if hyper.small >= hyper.medium:
        raise ConfigError(
            f"adaptivefl: got small = {hyper.small:g} and medium = {hyper.medium:g}, expected a "
            "larger share for medium"
        )


CARD = slice_card(
    name="adaptivefl",
    idea="a pool of models that are narrow from some layer on; the server learns which client "
    "can train which of them, and chooses clients accordingly",
    paper="Jia et al., AdaptiveFL: Adaptive Heterogeneous Federated Learning for Resource-"
    "Constrained AIoT Systems, DAC 2024",
    strategy="fedsub_papers.strategies.methods.adaptivefl:AdaptiveFLServer",
    hyperparameters=AdaptiveFLHyperparameters,
    check=check,
    holds="fedsub_papers.models.pools:room_for",
    down="a model of the pool",
    up="that model, trained",
    choose="Some devices cannot hold the model, few are asked in a round (clients-per-round), "
    "and the first layers matter: they keep all units as long as a device can hold them.",
    decisions=(
        "A model fits a device of capacity c if it has at most c * c of the full model's numbers. "
        "If no model of the pool fits, the device gets the smallest, as in the authors' code. For "
        "an mlp this happens at c = 1/4, because the smallest model has 0.18 of the numbers. The "
        "metric over_budget says how much larger it is than the budget.",
        "A device has stated its capacity, so the server narrows the model that was drawn for it, "
        "and never sends units that the device would discard. The server learns from the drawn "
        "model and from the narrowed one.",
        "A device keeps memory for the units of all models that it may receive, because a model "
        "need not contain all smaller ones. It trains one of them (metric pool_model, 1 is the "
        "first). It is tested with the largest.",
        "Models that equal another are left out of the pool: for an mlp with two hidden layers, "
        "three starts give five models, not seven.",
        "If all clients take part in a round, the server chooses only who gets which model.",
        "If all remaining clients have the probability 0 for a kind of model, they get equal "
        "probabilities.",
        "Layers are counted in the order in which the forward pass first meets them. A group of "
        "units has the place of its first layer.",
    ),
)
