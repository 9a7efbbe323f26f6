"""A person's model as a plain ``torch.nn.Module`` that needs nothing of FedSub."""

from __future__ import annotations

from torch import Tensor, nn

from fedsub.export.encoder_module import encoder_module
from fedsub_client.model_file import feature_tensors, scaling_tensors
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.samples import Tokens
from fedsub_core.models.experts import HEAD
from fedsub_core.models.mixture import Common, Mixture, finite, of_held, unit_length
from fedsub_core.models.model import Params
from fedsub_core.models.to_torch import to_torch


class PersonalModule(nn.Module):
    """``x [batch, *features]`` in the card's units to ``probabilities [batch, classes]``.

    `x` is float32, images of bytes uint8, token ids int64. Standardisation, encoder and softmax are
    inside. Where the model was trained without standardisation, the mean is 0 and the standard
    deviation 1, which changes no number.

    Parameters
    ----------
    model : the person's model; its parameters are copied.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: PersonalModel) -> None:
        super().__init__()
        mean, std = scaling_tensors(model)
        axes = (1, -1) + (1,) * (len(model.shape) - 1)
        self.register_buffer("mean", mean.reshape(axes))
        self.register_buffer("std", std.reshape(axes))
        self.ids = isinstance(model.shape, Tokens)
        self.encoder = nn.Identity() if model.encoder is None else encoder_module(model.encoder)
        of_features = feature_tensors(model)
        self.features = Standardised(*of_features.values()) if of_features else nn.Identity()
        predictor, params = model.predictor, model.params
        self.layers: nn.Module
        if isinstance(predictor, Mixture):
            self.layers = MixtureModule(predictor, params)
        else:
            self.layers = to_torch(predictor, params)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the probability of every class."""
        logits: Tensor = self.layers(self.seen(x))
        return logits.softmax(1)

    def seen(self, x: Tensor) -> Tensor:
        """Return what the layers see of samples."""
        if self.ids:
            return x
        found: Tensor = self.features(self.encoder((x.to(self.mean.dtype) - self.mean) / self.std))
        return found


class Standardised(nn.Module):
    """An encoder's features ``[batch, F]``, less a mean ``[F]``, over a deviation ``[F]``."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, features: Tensor) -> Tensor:
        """Return them standardised."""
        return (features - self.mean) / self.std


class MixtureModule(nn.Module):
    """``x [batch, *features]``, standardised, to a mixture's log probabilities.

    Parameters
    ----------
    mixture : which experts.
    params : without a client axis; they are copied.
    """

    def __init__(self, mixture: Mixture, params: Params) -> None:
        super().__init__()
        self.mixture = mixture
        common, *others = mixture.models
        self.body = to_torch(mixture.body, mixture.of(params, common))
        self.head = to_torch(mixture.head, mixture.of(params, common))
        if HEAD in mixture.experts:
            self.own_head = to_torch(mixture.head, mixture.head_of(params, HEAD))
        models = {name: to_torch(mixture.model, mixture.of(params, name)) for name in others}
        self.models = nn.ModuleDict(models)
        for name in mixture.gate_shapes:
            self.register_buffer(name.replace(".", "_"), params[name].clone()[None])

    def forward(self, x: Tensor) -> Tensor:
        """Return the log probability of every class."""
        gate = {n: self.get_buffer(n.replace(".", "_")) for n in self.mixture.gate_shapes}
        seen = self.body(x)
        word = finite(self.head(seen).softmax(1))[None]
        common = Common(word, unit_length(seen.flatten(1)[None]))
        own = {name: finite(model(x).softmax(1))[None] for name, model in self.models.items()}
        if HEAD in self.mixture.experts:
            own[HEAD] = finite(of_held(gate, self.own_head(seen)[None]).softmax(2))
        each = self.mixture.stacked(gate, common, own)
        return self.mixture.mixed(gate, common, each)[0]
