"""A person's model as a plain ``torch.nn.Module`` that needs nothing of FedSub."""

from __future__ import annotations

from torch import Tensor, nn

from fedsub.export.encoder_module import encoder_module
from fedsub_client.model_file import feature_tensors, scaling_tensors
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.samples import Tokens


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
        self.layers = model.predictor.to_torch(model.params)
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
