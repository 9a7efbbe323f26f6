"""A module that a file names and nobody has built yet: its numbers and shapes, without its code.

A file never names code that runs by itself: whoever uses it says the builder once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.kinds import build_model
from fedsub_core.models.model import Params
from fedsub_core.models.names import is_place
from fedsub_core.models.norms import AVERAGED
from fedsub_core.models.units import units_of
from fedsub_core.pytorch import HERE
from fedsub_core.spelling import spelt

if HERE:
    from fedsub_core.models.module_passes import tensors_of
    from fedsub_core.models.torch_model import TorchModel


@dataclass(frozen=True, eq=False)
class Unbuilt:
    """What a file says of a module.

    Parameters
    ----------
    kind : its name, or its builder's place.
    input_shape : of one sample.
    classes : logits of a sample.
    shapes : of one client's tensors: of one model, or of a mixture's.
    constants : numbers of the module that are the same for everybody.
    norm : where its running statistics went.
    """

    kind: str
    input_shape: Shape
    classes: int
    shapes: Mapping[str, Shape]
    constants: Params
    norm: str = AVERAGED

    def build(self, named: str = "") -> TorchModel:
        """Return the module with the file's own constants, and with as many units as the file has.

        Parameters
        ----------
        named : the builder's place as the user gave it, where it is one.

        Raises ConfigError if the user named another, or none, or what it builds has other tensors.
        """
        if is_place(self.kind) and named != self.kind:
            given = spelt("model", named) if named else f"no {spelt('model')}"
            raise ConfigError(
                f"its model is built by {self.kind}, which is code: got {given}, expected "
                f"{spelt('model', self.kind)}, if you trust that code"
            )
        made = build_model(self.kind, self.input_shape, self.classes, self.norm)
        if not isinstance(made, TorchModel):
            raise ConfigError(f"model {self.kind!r}: got a chain, expected the module of the file")
        if self._narrower(made):
            made = made.narrow(units_of(made.unit_groups, self.shapes))[0]
        module = made.as_module({name: t[0] for name, t in made.init(1, seed=0).items()})
        own = tensors_of(module)
        got = {name: tuple(t.shape) for name, t in self.constants.items()}
        expected = {name: tuple(t.shape) for name, t in made.constants.items()}
        if got != expected or not self._holds(made.tensor_shapes):
            raise ConfigError(
                f"model {self.kind!r}: got tensors {dict(self.shapes)} and constants {got} in the "
                f"file, its builder makes {made.tensor_shapes} and {expected}: its code changed"
            )
        for name, values in self.constants.items():
            own[name].copy_(values)
        for name in made.trained:
            own[name].requires_grad_(True)
        return TorchModel(made.build, module, made.trace, self.input_shape, self.norm)

    def _narrower(self, whole: TorchModel) -> bool:
        """Return whether the file's tensors are the module's with fewer entries."""
        shapes = whole.tensor_shapes
        if self.shapes.keys() != shapes.keys() or self.shapes == shapes:
            return False
        pairs = [(own, shapes[name]) for name, own in self.shapes.items()]
        return all(
            len(own) == len(all_) and all(n <= most for n, most in zip(own, all_, strict=True))
            for own, all_ in pairs
        )

    def _holds(self, expected: Mapping[str, Shape]) -> bool:
        """Return whether the file holds such a model, or one behind a name, as a mixture does.

        Beside it may stand tensors that a method's own predictor goes by.
        """
        if all(self.shapes.get(name) == shape for name, shape in expected.items()):
            return True
        first = next(iter(expected), "")
        behind = [name.removesuffix(first) for name in self.shapes if name.endswith(f".{first}")]
        return any(
            all(self.shapes.get(model + name) == shape for name, shape in expected.items())
            for model in behind
        )
