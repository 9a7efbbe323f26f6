"""What a person is tested with, uses and exports: a predictor, which the method's card names.

The device, its files, exports and reports know what stands here, and nothing of what a method's own
predictor is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedsub_core.models.architecture import Shape
from fedsub_core.models.model import Model, Params
from fedsub_core.pytorch import HERE, Tensor, nn

if HERE:
    from fedsub_core.models.to_torch import to_torch


@dataclass(frozen=True)
class Predictor:
    """The person's model as it is, which is what most methods predict with.

    A method that predicts with more is a subclass, which its card names: tensors of its own beside
    a model's, or several models.

    Parameters
    ----------
    model : the architecture of the model, or of each where there are several.
    """

    model: Model

    #: What a reader of a file computes with the tensors, in words; ``{seen}`` stands for what the
    #: layers see of samples x.
    computes: ClassVar[str] = "probabilities = softmax(layers({seen}))"

    @classmethod
    def of(cls, model: Model, hyper: Any) -> Predictor:
        """Return the predictor of a run with these hyperparameters."""
        return cls(model)

    @classmethod
    def described(cls, model: Model, facts: Mapping[str, Any]) -> Predictor:
        """Inverse of :meth:`describe`; lists may stand for tuples, as in JSON."""
        return cls(model)

    def describe(self) -> dict[str, Any] | None:
        """Return the facts on the predictor beside its model, as values of JSON.

        None: nothing, for the model predicts alone, and a reader needs no method to use it.
        """
        return None

    @property
    def tensor_shapes(self) -> Mapping[str, Shape]:
        """Shape of every tensor of one client that predictions go by."""
        return self.model.tensor_shapes

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]``.

        `params` and ``x [clients, samples, *features]``, standardised, are stacked.
        """
        return self.model.forward(params, x)

    def to_torch(self, params: Params) -> nn.Module:
        """Return a module that maps ``x [batch, *features]``, standardised, to logits.

        `params` are one client's, without a client axis; they are copied.
        """
        return to_torch(self.model, params)

    def fatal(self, params: Params, broken: Collection[str]) -> list[str]:
        """Return the `broken` tensors, not finite, that leave no answer; of one client."""
        return list(broken)
