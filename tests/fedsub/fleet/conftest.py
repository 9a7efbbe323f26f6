"""A small fleet behind a grid in virtual time."""

from collections.abc import Callable

import numpy as np
import pytest

from fedsub.fleet.grid import FleetGrid
from fedsub.fleet.habits import BOX, DAY, Habits
from fedsub.fleet.people import fleet_of
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import write_federation
from fedsub_core.data.sources import load_federation

Stretches = list[tuple[float, float]]
MakeFleet = Callable[..., tuple[RunConfig, FleetGrid]]
ALWAYS: Stretches = [(0.0, 10 * DAY)]


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> MakeFleet:
    """Make a fleet whose people are there in these stretches, s; each works for about 10 s."""

    def make(
        *there: Stretches,
        phones: dict[int, float] | None = None,
        left: dict[int, float] | None = None,
        work: dict[int, float] | None = None,
        end: float = 2 * DAY,
        **keys: object,
    ) -> tuple[RunConfig, FleetGrid]:
        people = fleet_of(load_federation("watch"), len(there), 40, 0)
        folder = tmp_path_factory.mktemp("fleet") / "data"
        write_federation(folder, people)
        given = {"method": "fedsub-ridge", "beside": "", "data": str(folder), **keys}
        config = read_config(None, given)  # type: ignore[arg-type]
        own = {
            client: Habits(
                BOX,
                np.array(stretches),
                (phones[i],) if phones and i in phones else (),
                (left or {}).get(i, np.inf),
                (work or {}).get(i, 10.0),
                1e6,
            )
            for i, (client, stretches) in enumerate(zip(people.clients, there, strict=True))
        }
        return config, FleetGrid(own, config.data, to_flat(config), end)

    return make
