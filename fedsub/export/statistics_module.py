"""Statistics of windows as a plain ``torch.nn.Module``: whole numbers, int64, in any runtime.

The formulas are :mod:`fedsub_core.encoders.statistics_encoder`'s. Whatever is divided is made
positive first: some runtimes round to 0, others down.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub_core.data.sensors import sensors_of
from fedsub_core.encoders.encoder import FULL
from fedsub_core.encoders.spectrum import (
    BAND,
    CELLS,
    COSINE,
    EDGES,
    HALF,
    MIDDLE,
    SHARES,
    WHOLE,
    halvings,
    length_of,
    turns,
)
from fedsub_core.encoders.statistics_encoder import (
    CUT,
    DEVIATION,
    KURTOSIS,
    LAGS,
    StatisticsEncoder,
    pairs,
)
from fedsub_core.encoders.whole import OCTAVE


def down(n: Tensor, by: int, least: int) -> Tensor:
    """Return ``n / by`` rounded down, of n from `least`, which is a multiple of `by`."""
    return (n - least) // by + least // by


def at_least(n: Tensor, least: Tensor | int) -> Tensor:
    """Return the greater of both, of 64 bits: ONNX Runtime's Max and Clip cut to 32 of them."""
    return torch.where(n < least, least, n)


def level(part: Tensor, whole: Tensor) -> Tensor:
    """Return ``part / whole`` rounded, halves up, as a level."""
    top = at_least(part, -FULL * whole)
    return ((2 * top + (2 * FULL + 1) * whole) // (2 * whole) - FULL).clamp(max=FULL - 1)


def root(n: Tensor) -> Tensor:
    """Return the whole part of the square root."""
    r = n.to(torch.float64).sqrt().floor().to(torch.int64)
    r = r - (r * r > n).to(torch.int64)
    return r + ((r + 1) * (r + 1) <= n).to(torch.int64)


class StatisticsModule(nn.Module):
    """The groups of an encoder, in their order, of samples in steps."""

    powers: Tensor
    edges: Tensor
    first: Tensor
    second: Tensor

    def __init__(self, encoder: StatisticsEncoder) -> None:
        super().__init__()
        channels, self.time = encoder.input_shape
        self.groups, self.channels = encoder.groups, channels
        self.axes = [list(axes) for axes in sensors_of(encoder.input_shape)]
        self.length = length_of(self.time)
        self.stages = self.length.bit_length() - 1
        table = torch.from_numpy(turns(self.length)).to(torch.int64)
        for stage in range(self.stages):
            every = table[:: 1 << stage].T.unsqueeze(2).contiguous()
            self.register_buffer(f"turns{stage}", every)
        self.register_buffer("powers", torch.tensor([1 << e for e in range(62)]))
        bands = [[float(a <= k < b) for k in range(CELLS)] for a, b in pairwise(EDGES)]
        self.register_buffer("edges", torch.tensor(bands).to(torch.int64))
        one, other = zip(*pairs(channels), strict=True) if channels > 1 else ((), ())
        self.register_buffer("first", torch.tensor(one, dtype=torch.int64))
        self.register_buffer("second", torch.tensor(other, dtype=torch.int64))

    def forward(self, steps: Tensor) -> Tensor:
        """Return levels ``[batch, statistics]``, int64, of steps ``[batch, channels, time]``."""
        whole = steps.to(torch.int64)
        norms = [root((whole[:, axes] ** 2).sum(1, keepdim=True)) for axes in self.axes]
        every = torch.cat([whole, *norms], 1)
        mean = down(2 * every.sum(2, keepdim=True) + self.time, 2 * self.time, -(self.time << 13))
        x = every - mean
        squares = (x * x).sum(2)
        made = {
            "shape": self._shape,
            "autocorrelation": self._autocorrelation,
            "spectrum": self._spectrum,
            "correlations": self._correlations,
        }
        return torch.cat([made[name](x, squares).flatten(1) for name in self.groups], 1)

    def _powers(self, n: Tensor) -> Tensor:
        """Return the exponents of the greatest powers of two up to n."""
        return (n.unsqueeze(-1) >= self.powers[1:]).to(torch.int64).sum(-1)

    def _octaves(self, n: Tensor) -> Tensor:
        e = self._powers(n)
        power = self.powers[e]
        return OCTAVE * e + (n - power) * OCTAVE // power

    def _shape(self, x: Tensor, squares: Tensor) -> Tensor:
        deviation = root(256 * squares // self.time).clamp(min=1)
        scale = torch.full_like(deviation, DEVIATION << 20) // deviation
        z = down(x * scale.unsqueeze(2) + (1 << 15), 1 << 16, -(1 << 40)).clamp(-CUT, CUT)
        cubes = (z * z * z).sum(2)
        skewness = level(cubes, torch.full_like(cubes, self.time * DEVIATION**3 // 32))
        fourths = at_least((z * z * z * z).sum(2) // self.time, 1)
        kurtosis = (self._octaves(fourths) - OCTAVE * (24 + KURTOSIS)).clamp(-FULL, FULL - 1)
        signs = (x >= 0).to(torch.int64)
        crossings = (signs[:, :, 1:] - signs[:, :, :-1]).abs().sum(2)
        part = 2 * (2 * FULL - 1) * crossings + self.time - 1
        return torch.stack([skewness, kurtosis, part // (2 * (self.time - 1)) - FULL], 2)

    def _autocorrelation(self, x: Tensor, squares: Tensor) -> Tensor:
        whole, found = at_least(squares, 1), []
        for lag in LAGS:
            left = max(self.time - lag, 0)
            product = x[:, :, self.time - left :] * x[:, :, :left]
            found.append(level(FULL * product.sum(2), whole))
        return torch.stack(found, 2)

    def _transform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return both parts of the transform, ``[batch, series, length]``."""
        series = x.shape[1]
        re = F.pad(x, (0, self.length - self.time))
        im = torch.zeros_like(re)
        for stage in range(self.stages):
            cos, sin = self.get_buffer(f"turns{stage}").unbind(0)
            shape = (-1, series, 2, self.length >> (stage + 1), 1 << stage)
            a, b = re.reshape(shape).unbind(2)
            c, d = im.reshape(shape).unbind(2)
            p, u, q, v = a + b, a - b, c + d, c - d
            if stage >= WHOLE:
                p, u, q, v = (down(one + 1, 2, -(1 << 20)) for one in (p, u, q, v))
            turned = u * cos - v * sin, u * sin + v * cos
            y, z = (down(one + HALF, 1 << COSINE, -(1 << 32)) for one in turned)
            re = torch.stack([p, y], 3).reshape(-1, series, self.length)
            im = torch.stack([q, z], 3).reshape(-1, series, self.length)
        return re, im

    def _spectrum(self, x: Tensor, squares: Tensor) -> Tensor:
        re, im = self._transform(x)
        half = self.length // 2
        power = (re * re + im * im)[:, :, 1 : half + 1]
        power = power.reshape(-1, x.shape[1], CELLS, half // CELLS).sum(3)
        power = power * (1 << 2 * halvings(self.length))
        bands = (power.unsqueeze(2) * self.edges).sum(3) // self.time
        middle = OCTAVE * (self.stages - 1 + MIDDLE)
        levels = down(self._octaves(bands + 1) - middle, BAND, -BAND << 10).clamp(-FULL, FULL - 1)
        total = at_least(power.sum(2, keepdim=True), 1)
        shares = power // self.powers[(self._powers(total) - SHARES).clamp(min=0)]
        weight = shares.sum(2).clamp(min=1)
        mean = (shares * self._octaves(shares.clamp(min=1))).sum(2) // weight
        entropy = down((self._octaves(weight) - mean) * 2 * FULL, OCTAVE * 6, -OCTAVE * 6 << 10)
        # The first of the strongest cells, of whole numbers: not every runtime has their argmax.
        strongest = (power >= power.amax(2, keepdim=True)).to(torch.int64)
        peak = CELLS - (strongest * torch.arange(CELLS, 0, -1, device=x.device)).amax(2)
        peak = peak * (2 * FULL // CELLS) - FULL
        entropy = (entropy - FULL).clamp(-FULL, FULL - 1)
        return torch.cat([levels, entropy.unsqueeze(2), peak.unsqueeze(2)], 2)

    def _correlations(self, x: Tensor, squares: Tensor) -> Tensor:
        lengths = root(256 * squares)
        one, other = lengths[:, self.first], lengths[:, self.second]
        product = (x[:, self.first] * x[:, self.second]).sum(2)
        return level(256 * FULL * product, at_least(one * other, 1))
