"""What a device holds of a run's encoder and model; devices and the server compute it alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fedsub_core.config.halves import DeviceSettings, ServerSettings
from fedsub_core.encoders.build import build_encoder, model_shape
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.names import resolve_encoder
from fedsub_core.methods.card import MethodCard
from fedsub_core.models.architecture import Shape
from fedsub_core.models.kinds import build_model
from fedsub_core.models.model import Model
from fedsub_core.wire.encoding import WireSettings


@dataclass(frozen=True)
class Held:
    """What a device holds.

    Parameters
    ----------
    encoder : None where there is none.
    model : that sees its features.
    whole : the run's model, of which `model` has the first units of each layer; None: it is that.
    """

    encoder: Encoder | None
    model: Model
    whole: Model | None = None

    @classmethod
    def of(
        cls,
        card: MethodCard,
        settings: DeviceSettings | ServerSettings,
        seed: int,
        shape: Shape,
        classes: int,
        capacity: float = 1.0,
    ) -> Held:
        """Return the model that a device of a capacity holds.

        Parameters
        ----------
        card : of the method. Where weak devices do not take part narrow, all hold everything.
        settings : of either half of the method: which encoder, and which kind of model.
        capacity : share of the encoder's kernels, or of each hidden layer's units, that the device
            holds, in (0, 1].

        Raises ConfigError if the encoder cannot take such samples, or there is no such model.
        """
        text = resolve_encoder(settings.encoder, card.training.encodes, shape)
        encoder = build_encoder(text, seed, shape)
        if encoder is not None and card.weak.narrow == "encoder":
            encoder = encoder.narrow(capacity)
        seen = model_shape(encoder, shape)
        kind, narrow = settings.model, card.weak.narrow == "model"
        hollow = narrow and capacity < 1
        model = build_model(kind, seen, classes, settings.norm, seed, settings.hidden, hollow)
        if narrow:
            # Which units it holds may change from round to round, how many of each layer does not.
            small = card.weak.load_holds()(model, settings.hyper, capacity)
            return cls(encoder, small, model if capacity < 1 else None)
        return cls(encoder, model)


def why_unfit(
    card: MethodCard,
    wire: WireSettings,
    whole: Model,
    capacity: float,
    encoder: Encoder | None = None,
) -> str:
    """Return why a device of a capacity cannot take part in a method's run; "" where it can.

    `whole` and `encoder` are those of a device that holds everything.
    """
    if capacity == 1:
        return ""
    shapes = whole.parameter_shapes  # what stays at home is no device's share
    numbers = sum(prod(shape) for name, shape in shapes.items() if name in whole.trained)
    if card.weak.narrow == "elements" and capacity**2 * numbers < 1:
        return f"capacity: got {capacity:g}, expected {numbers**-0.5:.2g} at least: one number"
    if card.weak.narrow == "encoder" and encoder is not None and not encoder.narrows:
        return (
            f"capacity: got {capacity:g} with encoder {encoder.text!r}, expected 1: a module "
            "computes all of its features or none. Leave such people out, or take kernels:N"
        )
    if card.weak.narrow != "model":
        return ""
    widest = max((group.size for group in whole.unit_groups), default=0)
    if not widest:
        return (
            f"capacity: got {capacity:g} of a model without hidden units, of which no part can be "
            "left out; expected capacity 1, or a model with a hidden layer"
        )
    if capacity * widest < 1 - 1e-9:
        return (
            f"capacity: got {capacity:g}, expected 1/{widest} at least: the smallest part of the "
            "model has one unit of each hidden layer"
        )
    if card.weak.resizes and wire.upload.top_k < 1:
        return (
            f"upload-encoding: got top-k with a capacity of {capacity:g}, expected none: what is "
            "left out would be taken from other units, which the device held before"
        )
    return ""
