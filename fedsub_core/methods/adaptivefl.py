"""AdaptiveFL: a pool of models, and clients that are chosen by what they could train so far."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.methods.slices import slice_card
from fedsub_core.options import choice, option


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
    strategy="strategies.methods.adaptivefl:AdaptiveFLStrategy",
    hyperparameters=AdaptiveFLHyperparameters,
    check=check,
    holds="fedsub_core.models.pools:room_for",
    down="a model of the pool",
    up="that model, trained",
    choose="Some devices cannot hold the model, few are asked in a round (clients-per-round), "
    "and the first layers matter: they keep all units as long as a device can hold them.",
    decisions=(
        "A model fits a device of capacity c that has c * c of the whole one's numbers at most. "
        "Where none fits (of an mlp at c = 1/4, as the smallest has 0.18) the smallest is handed "
        "out, as by the authors; over_budget in the metrics says how much more that is.",
        "A device has said what it holds, so the server itself cuts the model that was drawn for "
        "it: it is never sent what it would throw away. What is learnt is learnt from what was "
        "drawn, and what it became.",
        "A device keeps room for the units of all models that it may be sent, which do not all "
        "lie in one another; it trains one of them (pool_model in the metrics, 1 is the first). It "
        "is tested with the largest.",
        "Models that are like another are left out of the pool: of an mlp with two hidden layers "
        "three starts give five models, not seven.",
        "Where all clients take part in a round, only who gets which model is chosen.",
        "Where a model's kind was never trained by anybody who is left, all have the same chance.",
    ),
)
