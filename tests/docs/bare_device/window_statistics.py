"""Statistics of one window in plain whole numbers, as the page says."""

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import cos, isqrt, pi, sin

Series = list[int]


def clip(n: int) -> int:
    return max(-128, min(127, n))


def level(a: int, b: int) -> int:
    return clip((2 * a + b) // (2 * b))


def log(n: int) -> int:
    e = n.bit_length() - 1
    return 32 * e + (32 * (n - (1 << e)) >> e)


def levels(
    window: list[Series], groups: Sequence[str], sensors: Sequence[Sequence[int]]
) -> list[int]:
    """Return the levels of a window ``[channels][time]`` of steps."""
    time = len(window[0])
    norms = [[isqrt(sum(window[c][t] ** 2 for c in one)) for t in range(time)] for one in sensors]
    series = []
    for q in window + norms:
        mean = (2 * sum(q) + time) // (2 * time)
        series.append([one - mean for one in q])
    if groups == ["statistics"]:
        groups = "shape", "autocorrelation", "spectrum", "correlations"
    of_each = {"shape": shape, "autocorrelation": autocorrelation, "spectrum": spectrum}
    found: list[int] = []
    for group in groups:
        if group == "correlations":
            found += correlations(series[: len(window)])
        else:
            for x in series:
                found += of_each[group](x)
    return found


def shape(x: Series) -> list[int]:
    time, squares = len(x), sum(one**2 for one in x)
    s = 2**26 // max(1, isqrt(256 * squares // time))
    z = [max(-2047, min(2047, (one * s + 2**15) // 2**16)) for one in x]
    k = max(1, sum(one**4 for one in z) // time)
    c = sum((a < 0) != (b < 0) for a, b in pairwise(x))
    skewness = level(sum(one**3 for one in z), 8192 * time)
    return [skewness, clip(log(k) - 832), (510 * c + time - 1) // (2 * (time - 1)) - 128]


def autocorrelation(x: Series) -> list[int]:
    whole = max(1, sum(one**2 for one in x))
    return [
        level(128 * sum(a * b for a, b in zip(x, x[lag:], strict=False)), whole)
        for lag in (2, 5, 10, 20)
    ]


def spectrum(x: Series) -> list[int]:
    size = 128
    while size < len(x):
        size *= 2
    half, m = size // 2, size.bit_length() - 1
    a, b, s = x + [0] * (size - len(x)), [0] * size, 1
    while s < size:
        new_a, new_b = [0] * size, [0] * size
        for p in range(0, half, s):
            c, t = round(4096 * cos(2 * pi * p / size)), round(-4096 * sin(2 * pi * p / size))
            for i in range(p, p + s):
                j = i + half
                four = a[i] + a[j], b[i] + b[j], a[i] - a[j], b[i] - b[j]
                new_a[i + p], new_b[i + p], u, w = (
                    (one + 1) // 2 if s >= 64 else one for one in four
                )
                new_a[i + p + s] = (u * c - w * t + 2048) // 4096
                new_b[i + p + s] = (u * t + w * c + 2048) // 4096
        a, b, s = new_a, new_b, 2 * s
    power = [(re**2 + im**2) * (size // 64) ** 2 for re, im in zip(a, b, strict=True)]
    width = size // 128
    cells = [sum(power[k * width + 1 : (k + 1) * width + 1]) for k in range(64)]
    edges = 0, 2, 3, 5, 8, 13, 23, 38, 64
    bands = [sum(cells[i:j]) for i, j in pairwise(edges)]
    found = [clip((log(one // len(x) + 1) - 32 * (m + 7)) // 3) for one in bands]
    whole = sum(cells)
    r = cells if whole < 2**15 else [one >> (whole.bit_length() - 16) for one in cells]
    w = max(1, sum(r))
    entropy = log(w) - sum(one * log(one) for one in r if one) // w
    return [*found, clip(256 * entropy // 192 - 128), 4 * cells.index(max(cells)) - 128]


def correlations(channels: list[Series]) -> list[int]:
    pairs = sorted(combinations(range(len(channels)), 2), key=lambda two: (two[1] - two[0], two))
    roots = [isqrt(256 * sum(one**2 for one in x)) for x in channels]
    return [
        level(
            2**15 * sum(a * b for a, b in zip(channels[i], channels[j], strict=True)),
            max(1, roots[i] * roots[j]),
        )
        for i, j in pairs[:36]
    ]
