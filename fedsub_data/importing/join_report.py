"""The report on sensors that were joined: rates, interpolated points, rows that were left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fedsub_core.errors import listed

_SHOWN = 3


@dataclass
class JoinReport:
    """What happened to sensors, over all recordings.

    Parameters
    ----------
    recordings : their paths.
    """

    sensors: Sequence[str]
    recordings: Sequence[Path]
    _ratios: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    _lost: dict[int, dict[int, int]] = field(default_factory=dict)

    def add(
        self, recording: int, base: int, sensor: int, steps: Sequence[float], lost: int
    ) -> None:
        """Count one sensor of a recording.

        Parameters
        ----------
        base : the sensor at whose times the others are taken.
        steps : of all sensors, in one unit of time.
        lost : rows of the base that were left out, as the sensor has none around.
        """
        self._ratios.setdefault((sensor, base), []).append(steps[sensor] / steps[base])
        if lost:
            self._lost.setdefault(sensor, {})[recording] = lost

    def notes(self) -> list[str]:
        """Return sentences for people."""
        count = len(self.recordings)
        notes = [f"Joined on time: {', '.join(self.sensors)}, in {count:,} recordings."]
        for (sensor, base), ratios in self._ratios.items():
            middle = float(np.median(ratios))
            share = max(0.0, 1 - 1 / middle) if np.isfinite(middle) else 1.0
            how = f"a step of it is {middle:.3g} of theirs: " if share > 0.02 else ""
            points = f"{100 * share:.0f} % of points are" if how else "points are"
            notes.append(
                f"{self.sensors[sensor]} is taken at the times of {self.sensors[base]} in "
                f"{len(ratios):,} recordings: {how}{points} interpolated between its own rows."
            )
        for sensor, lost in self._lost.items():
            most = sorted(lost, key=lambda each: -lost[each])
            shown = [f"{self.recordings[i].name} ({lost[i]:,})" for i in most]
            notes.append(
                f"Left out: {sum(lost.values()):,} rows at whose time {self.sensors[sensor]} has a "
                f"gap or no rows: {listed(shown, _SHOWN)}."
            )
        return notes
