"""Four domains of digits, made of real digits of MNIST."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError
from fedsub_papers.preparing.options import DigitsOptions
from fedsub_papers.preparing.pictures.digits import difference, prepare
from fedsub_papers.preparing.pictures.rendered import FONTS, _font, rendered
from fedsub_papers.tests.official_files.pictures import mnist

DOMAINS = ["mnist", "optical", "photographs", "rendered"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, real_data: Path) -> Path:
    return mnist(tmp_path_factory.mktemp("mnist"), real_data, train=120, test=10)


def made(source: Path, **options: Any) -> Federation:
    chosen = DigitsOptions(**({"samples": 50} | options))
    return prepare(source, chosen, 1, lambda done, total: None).federation


def test_four_domains_of_one_shape(source: Path) -> None:
    federation = made(source)
    assert list(federation.clients) == DOMAINS
    for data in federation.clients.values():
        assert data.x.shape == (50, 3, 28, 28) and data.x.dtype == np.uint8
        assert set(data.y) == set(range(10))
    grey = {name: (data.x[:, :1] == data.x).all() for name, data in federation.clients.items()}
    assert grey == {"mnist": True, "optical": True, "photographs": False, "rendered": False}


def test_no_digit_of_mnist_is_in_two_domains(source: Path, real_data: Path) -> None:
    federation = made(source)
    with np.load(real_data / "images/mnist20k.npz") as file:
        x, y = file["x"][file["train"]], file["y"][file["train"]]
    assert (federation.clients["mnist"].x[:, 0] == x[:50]).all()
    over = federation.clients["photographs"]
    assert (over.y == y[50:100]).all()
    # Where a digit has no ink the patch is as it was; the negative of it where all is ink.
    patches = np.where(x[50:100, None] == 0, over.x, 0)
    assert np.ptp(patches.reshape(50, -1), axis=1).min() > 0


def test_a_digit_over_a_patch_is_their_absolute_difference() -> None:
    digit, patch = np.array([0, 255, 255, 10], np.uint8), np.array([7, 7, 250, 4], np.uint8)
    assert difference(digit, patch).tolist() == [7, 248, 5, 6]


def test_the_seed_decides_patches_and_fonts_and_nothing_else(source: Path) -> None:
    one, again, other = made(source), made(source), made(source, seed=1)
    for name in DOMAINS:
        assert (one.clients[name].x == again.clients[name].x).all()
        alike = (one.clients[name].x == other.clients[name].x).all()
        assert alike == (name in ("mnist", "optical"))


@pytest.mark.parametrize("name", FONTS)
def test_a_font_has_ten_digits_that_differ(name: str) -> None:
    masks = {bytes(_font(name, 30).getmask(str(digit))) for digit in range(10)}
    assert len(masks) == 10


def test_ink_stands_out_from_paper() -> None:
    pictures = rendered(np.arange(10).repeat(5), 28, np.random.default_rng(0)).astype(int)
    corner = pictures[:, :, :1, :1]
    assert np.abs(pictures - corner).max(axis=(2, 3)).min() >= 85


def test_too_few_digits_are_refused(source: Path) -> None:
    with pytest.raises(DataError, match="got 120 training digits, expected 122: two domains of 61"):
        made(source, samples=61)
