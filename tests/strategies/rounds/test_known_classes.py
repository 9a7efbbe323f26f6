"""Bundles of devices that know fewer classes than the run."""

import numpy as np
import pytest

from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Declared, Floats, Kind
from strategies.rounds.known_classes import cut_to

RUN, KNOWN = ({"prototypes": Declared(Kind.ROWS, (rows, 4))} for rows in (3, 2))


@pytest.mark.parametrize("rows", [[0, 2], [0, 1], [1, 2], [2], [0, 1, 2]])
def test_rows_are_cut_however_many_there_are(rows: list[int]) -> None:
    """Row r of a run's three holds the number r everywhere; the device knows the first two."""
    index = np.array(rows)
    values = np.repeat(index[:, None], 4, axis=1).astype(np.float32)
    download = Bundle(tensors={"prototypes": Floats(values, Placement(rows=index))})
    part = cut_to(download, KNOWN, RUN).tensors["prototypes"]
    assert isinstance(part, Floats) and part.at.rows is not None
    known = [row for row in rows if row < 2]
    assert part.at.rows.tolist() == known and part.values[:, 0].tolist() == known


def test_what_was_made_for_the_device_is_not_cut() -> None:
    own = Floats(np.ones((2, 4), np.float32))
    assert cut_to(Bundle(tensors={"prototypes": own}), KNOWN, RUN).tensors["prototypes"] is own
