"""The record of a run's model: what `auto` stood for, its layers, its encoder; as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import prod

from torch import nn

from fedsub_core.config.halves import DeviceSettings, ServerSettings
from fedsub_core.data.samples import Tokens
from fedsub_core.encoders.names import NONE, resolve_encoder
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.endings import bounded
from fedsub_core.models.held import Held
from fedsub_core.models.layers import ReLU
from fedsub_core.models.model import Model
from fedsub_core.models.names import resolve_kind
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.torch_model import TorchModel


@dataclass(frozen=True)
class ModelRecord:
    """The record of a run's model, as a device that holds everything has it.

    Parameters
    ----------
    kind : its name, or its builder's place; never ``auto``.
    layers : from input to output, as PyTorch writes them.
    numbers : count of those that are trained or solved for.
    classes : count, as of a sample's logits.
    sample : shape of one sample.
    encoder : its name, never ``auto``; ``none``: there is none.
    features : count of the encoder's, which are the model's input; 0 without an encoder.
    vocabulary : above all token ids, if samples are these; 0: they are numbers.
    ending : the reason why the model's ending spoils training; "": it does not.
    """

    kind: str
    layers: tuple[str, ...]
    numbers: int
    classes: int
    sample: tuple[int, ...]
    encoder: str = NONE
    features: int = 0
    vocabulary: int = 0
    ending: str = ""

    @classmethod
    def of(
        cls, settings: DeviceSettings | ServerSettings, seed: int, sample: Shape, classes: int
    ) -> ModelRecord:
        """Return the record of the model of a method's run, whose settings may say ``auto``.

        Parameters
        ----------
        sample : shape of one.
        """
        card = method(settings.method)
        model = Held.of(card, settings, seed, sample, classes).model
        encoder = resolve_encoder(settings.encoder, card.training.encodes, sample)
        return cls(
            resolve_kind(settings.model, model.input_shape),
            layers_of(model),
            sum(prod(model.tensor_shapes[name]) for name in model.trained),
            model.classes,
            tuple(sample),
            encoder,
            0 if encoder == NONE else prod(model.input_shape),
            sample.vocabulary if isinstance(sample, Tokens) else 0,
            ending_of(model),
        )

    def as_json(self) -> str:
        """Return the record as one line."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ModelRecord:
        """Inverse of :meth:`as_json`.

        Raises RunError if the text is no such record.
        """
        try:
            fields = json.loads(text)
            return cls(**fields | {name: tuple(fields[name]) for name in ("layers", "sample")})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RunError(f"got {text[:80]!r}, expected the record of a model") from error


def ending_of(model: Model) -> str:
    """Return the reason why a model's ending spoils training; "": it does not."""
    if isinstance(model, TorchModel):
        return model.trace.ending
    assert isinstance(model, Chain)
    return bounded(nn.ReLU()) if isinstance(model.layers[-1], ReLU) else ""


def layers_of(model: Model) -> tuple[str, ...]:
    """Return the layers of a model as PyTorch writes them, those that hold no other."""
    if isinstance(model, TorchModel):
        module = model.module
    else:
        assert isinstance(model, Chain)
        module = to_torch(model, {name: t[0] for name, t in model.init(1, seed=0).items()})
    own = [_line(layer) for layer in module.modules() if not list(layer.children())]
    for after, head in model.branches if isinstance(model, Chain) else ():
        own.append(f"an exit behind the first {after} layers ({', '.join(layers_of(head))})")
    return tuple(own)


def _line(layer: nn.Module) -> str:
    return " ".join(repr(layer).split())
