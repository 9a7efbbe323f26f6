"""Partitions of images and of texts."""

from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.errors import DataError
from fedsub_data.partitions.feature_shift import FeatureShiftOptions
from fedsub_data.partitions.label_skew import DirichletOptions
from fedsub_data.partitions.partitions import counted_partition
from fedsub_papers.tests import shapes


def test_images_through_other_cameras_stay_bytes(real_data: Path) -> None:
    digits = shapes.digits(real_data, people=3, each=30)
    shifted = counted_partition(
        digits, "feature-shift", FeatureShiftOptions(gain=0.3), 0
    ).federation
    for name, data in digits.clients.items():
        x = shifted.clients[name].x
        assert x.dtype == np.uint8
        # A gain keeps what is black, and the order of grey values.
        assert (x[data.x == 0] == 0).all() and (x != data.x).any()
        lighter = data.x.ravel() > 200
        assert x.ravel()[lighter].mean() > x.ravel()[~lighter].mean()


def test_texts_are_dealt_and_have_no_sensor(real_data: Path, tmp_path: Path) -> None:
    news = shapes.news(real_data, people=3, each=30)
    dealt = counted_partition(news, "dirichlet", DirichletOptions(clients=3), 0).federation
    write_federation(tmp_path / "it", dealt)
    back = read_federation(tmp_path / "it")
    assert back.card.vocabulary == shapes.VOCABULARY
    assert {data.x.dtype for data in back.clients.values()} == {np.dtype(np.int32)}
    with pytest.raises(DataError, match="holds token ids, which no sensor changes"):
        counted_partition(news, "feature-shift", FeatureShiftOptions(), 0)
