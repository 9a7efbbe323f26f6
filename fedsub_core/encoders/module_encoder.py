"""A module of one's own as an encoder: frozen, its outputs rounded to the levels -128 to 127.

The module takes standardised samples as they are and returns features in [-1, 1]; those beyond are
clipped (:class:`~fedsub_core.encoders.feature_scale.FeatureScale` scales any). So nobody is asked
for a scale before the run. All that is summed of the levels is whole and exact. But a module
computes in float32, whose last digits differ between machines, numbers of threads and batches: now
and then a feature is one level off.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import FULL, UNIT, Encoder, scaled
from fedsub_core.encoders.module_names import NamedModule
from fedsub_core.errors import ConfigError
from fedsub_core.extras import require
from fedsub_core.models.architecture import Shape
from fedsub_core.pytorch import HERE, nn, torch
from fedsub_core.spelling import spelt

if HERE:
    from fedsub_core.encoders.frozen_module import frozen

log = logging.getLogger("fedsub")

#: Values of samples that pass at once, and samples at most.
VALUES, BLOCK = 2**20, 256
#: Share of clipped features that is warned of, and that is refused.
MANY_CLIPPED, MOST_CLIPPED = 0.05, 0.5
#: Levels that all features of some samples take at least, or it is warned of.
FEWEST_LEVELS = 8
#: Encoders that this process has warned of.
_warned: set[str] = set()


@dataclass(frozen=True)
class ModuleEncoder(Encoder):
    """Features of samples by a module; `size` is their count.

    Parameters
    ----------
    name : of the module, with its file's digest (:mod:`.module_names`). No code runs before the
        first sample is encoded.
    """

    name: str
    least: ClassVar[int] = 1
    narrows: ClassVar[bool] = False

    @classmethod
    def of(cls, name: str, seed: int, shape: Shape) -> Self:
        """Return the encoder of that name for samples of `shape`; raises as :func:`frozen`."""
        require(f"encoder {name!r}", "torch")
        return cls(frozen(name, seed, shape)[1], seed, shape, name)

    @property
    def text(self) -> str:
        """How a run's configuration names it."""
        return self.name

    @property
    def given(self) -> str:
        """Its name as people give it, without a digest."""
        named = NamedModule.parse(self.name)
        assert named is not None
        return named.given

    @property
    def features(self) -> int:
        """How many features a sample has."""
        return self.size

    @property
    def module(self) -> nn.Module:
        """The module, in evaluation mode.

        Raises ConfigError; as :func:`frozen`, or if it makes another number of features.
        """
        require(f"encoder {self.given!r}", "torch")
        module, features = frozen(self.name, self.seed, self.input_shape)
        if features != self.size:
            raise self._refused(f"got {features} features, expected {self.size}: its code changed")
        return module

    def as_named(self, given: str) -> Self:
        """Return the encoder with its code and weights where the user says that they lie.

        Raises ConfigError if the user names none, or as :func:`frozen`.
        """
        own, named = NamedModule.parse(self.name), NamedModule.parse(given)
        assert own is not None
        if named is None or not (own.digest or named.code == own.code):
            raise ConfigError(
                f"its encoder is the module {own.given}, which is code: got "
                f"{spelt('encoder', given) if given else 'no ' + spelt('encoder')}, expected "
                f"{spelt('encoder', own.given)}, if you trust that code"
            )
        found = replace(self, name=replace(named, digest=own.digest).text)
        _ = found.module  # refuses other files
        return found

    def copied(self) -> nn.Module:
        """Return a copy of the module, for an export."""
        return copy.deepcopy(self.module)

    def narrow(self, capacity: float) -> Self:
        """Return the encoder itself for a capacity of 1; a part of a module is not known.

        Raises ConfigError for less.
        """
        if capacity == 1:
            return self
        raise self._refused(
            f"got a device of capacity {capacity:g}, expected 1: a module computes all of its "
            "features or none. Leave such devices out, or take kernels:N or relu:N"
        )

    def levels(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return ``[n, features]`` of quantised samples."""
        return self._levels(steps.astype(np.float32) / np.float32(UNIT))

    def encode(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features ``[n, features]`` in [-1, 1) of standardised ``x [n, *input_shape]``.

        Samples are neither clipped nor rounded before.
        """
        return scaled(self._levels(x))

    def _levels(self, x: NDArray[np.float32]) -> NDArray[np.int8]:
        module, found = self.module, np.empty((len(x), self.size), np.int8)
        block = max(1, min(BLOCK, VALUES // prod(self.input_shape)))
        clipped = 0
        for start in range(0, len(x), block):
            of = self._outputs(module, x[start : start + block])
            clipped += int(np.count_nonzero(np.abs(of) > 1))
            found[start : start + block] = np.rint(np.clip(of * FULL, -FULL, FULL - 1))
        self._check_scale(found, clipped)
        return found

    def _outputs(self, module: nn.Module, x: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            of: NDArray[np.float32] = module(
                torch.from_numpy(np.ascontiguousarray(x, np.float32))
            ).numpy()
        if of.shape != (len(x), self.size) or not np.isfinite(of).all():
            bad = "NaN or infinite" if of.shape == (len(x), self.size) else f"shape {of.shape}"
            raise self._refused(
                f"got features that are {bad}, expected finite ones {(len(x), self.size)}"
            )
        return of

    def _check_scale(self, levels: NDArray[np.int8], clipped: int) -> None:
        """Refuse features that are mostly clipped; warn of many, and of very few levels."""
        if not levels.size:
            return
        share, given = clipped / levels.size, self.given
        if share > MOST_CLIPPED:
            raise self._refused(
                f"got {share:.0%} of the features of {len(levels)} samples outside [-1, 1], "
                f"expected {MOST_CLIPPED:.0%} at most. End the module with a FeatureScale, "
                "fitted to such samples"
            )
        taken = int(np.ptp(levels.astype(np.int16))) + 1
        coarse = len(levels) > 1 and taken < FEWEST_LEVELS
        if given in _warned or not (coarse or share > MANY_CLIPPED):
            return
        _warned.add(given)
        log.warning(
            "encoder %s: %d %% of features were clipped to [-1, 1], and all take %d of 256 levels",
            given,
            round(100 * share),
            taken,
        )

    def _refused(self, why: str) -> ConfigError:
        return ConfigError(f"encoder {self.given!r}: {why}")
