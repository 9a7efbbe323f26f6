"""Digits drawn with fonts that come with matplotlib, in colours, shifted and tilted."""

from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from fedsub_papers.preparing.pictures.parts import Pictures

#: Fonts with all ten digits upright on one line.
FONTS = (
    "DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono", "DejaVuSerif",
    "DejaVuSerif-Bold", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic",
    "cmr10", "cmb10", "cmss10", "cmtt10",
)  # fmt: skip
# Drawn twice as large and then made smaller: edges are smooth.
_TWICE = 2


def rendered(labels: NDArray[np.int64], size: int, rng: np.random.Generator) -> Pictures:
    """Return a picture of each digit in `labels` [n], uint8 [n, 3, size, size].

    Font, height, place, angle and colours are drawn for each. Ink and paper differ by at least 90
    of 255 in each colour. Other versions of the font library may draw other edges.
    """
    pictures = np.empty((len(labels), 3, size, size), np.uint8)
    for i, label in enumerate(labels):
        share = _ink(str(label), size, rng)
        paper = rng.integers(0, 256, 3)
        apart = rng.integers(90, 128, 3)
        ink = np.where(paper < 128, paper + apart, paper - apart)
        mixed = paper[:, None, None] + share * (ink - paper)[:, None, None]
        pictures[i] = np.rint(mixed).astype(np.uint8)
    return pictures


def _ink(digit: str, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return how much ink is where, 0 to 1, [size, size]."""
    side = _TWICE * size
    name = FONTS[rng.integers(len(FONTS))]
    font = _font(name, int(rng.integers(round(0.6 * side), round(0.9 * side))))
    place = tuple(side / 2 + rng.uniform(-0.08, 0.08, 2) * side)
    image = Image.new("L", (side, side))
    ImageDraw.Draw(image).text(place, digit, 255, font, anchor="mm")
    tilted = image.rotate(float(rng.uniform(-15, 15)), Image.Resampling.BILINEAR)
    small = tilted.resize((size, size), Image.Resampling.BOX)
    return np.asarray(small, np.float64) / 255


@cache
def _font(name: str, height: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf", f"{name}.ttf"), height)
