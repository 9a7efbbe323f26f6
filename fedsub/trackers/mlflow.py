"""MLflow's runs of a run, one for each method, by MLflow's own client.

Weighed: the package mlflow brings a server with Flask, pandas and pyarrow; mlflow-skinny has the
same client, which talks to a tracking server and, with the SQLAlchemy and Alembic that Flower
brings, writes databases. Folders of files MLflow itself refuses unless asked to (3.17).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedsub.trackers.series import Tracked
from fedsub_core.errors import RunError
from fedsub_core.extras import require

#: By which a method's run is known again: the name that was drawn for it.
RUN_TAG, FOLDER_TAG = "fedsub.run", "fedsub.folder"
#: MLflow's own name of the experiment, where it is set.
EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
# Of one request, as MLflow bounds them.
_MOST_METRICS, _MOST_PARAMS = 1000, 100


@dataclass(frozen=True)
class _Logged:
    """What MLflow has of a method: its run's id, status and last round of each metric."""

    id: str
    status: str
    last: Mapping[str, int]


class MlflowRuns:
    """A run in MLflow for each method, found again by the name drawn for it, and added to.

    Parameters
    ----------
    uri : of a tracking server or database, such as ``http://host:5000``, ``sqlite:///mlflow.db``.
    folder : name of the run's folder; also the experiment's, unless ``MLFLOW_EXPERIMENT_NAME`` is
        set.

    Raises ConfigError where MLflow is not installed. Raises RunError if MLflow cannot be reached,
    or the experiment has been deleted there.
    """

    def __init__(self, uri: str, folder: str) -> None:
        require("--mlflow", "mlflow")
        # It would tell its makers what is done with it.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        self.folder, self.experiment = folder, os.environ.get(EXPERIMENT) or folder
        self._logged: dict[str, _Logged] = {}
        with _errors():
            self._client = MlflowClient(tracking_uri=uri)
            found = self._client.get_experiment_by_name(self.experiment)
            if found is not None and found.lifecycle_stage != "active":
                raise RunError(
                    f"MLflow: the experiment {self.experiment!r} was deleted there; restore it, or "
                    f"set {EXPERIMENT} to another name"
                )
            self._experiment = (
                self._client.create_experiment(self.experiment)
                if found is None
                else found.experiment_id
            )

    @property
    def place(self) -> str:
        """In which experiment they are."""
        return f"MLflow: experiment {self.experiment}"

    def update(self, found: Sequence[Tracked]) -> None:
        """Log what is not logged yet.

        Raises RunError if MLflow cannot be reached, or refuses it.
        """
        with _errors():
            for one in found:
                # Interrupted half-way, what MLflow has is not known, and is asked for.
                before = self._logged.pop(one.run, None) or self._find(one)
                self._logged[one.run] = self._log(one, before)

    def _find(self, one: Tracked) -> _Logged:
        client, named = self._client, self.experiment == self.folder
        query = f"tags.`{RUN_TAG}` = '{one.run}'"
        runs = list(client.search_runs([self._experiment], query))
        run = (
            runs[0]
            if runs
            else client.create_run(
                self._experiment,
                start_time=_milliseconds(one.times[0]),
                tags={RUN_TAG: one.run, FOLDER_TAG: self.folder},
                run_name=one.method if named else f"{self.folder}/{one.method}",
            )
        )
        self._log_settings(one, run)
        id = run.info.run_id
        last = {
            name: max(point.step for point in client.get_metric_history(id, name))
            for name in run.data.metrics
        }
        return _Logged(id, run.info.status, last)

    def _log_settings(self, one: Tracked, run: Any) -> None:
        from mlflow.entities import Param

        # They are for ever there: what is logged already is left as it is.
        missing = [
            Param(key, str(value))
            for key, value in one.settings.items()
            if key not in run.data.params
        ]
        for i in range(0, len(missing), _MOST_PARAMS):
            self._client.log_batch(run.info.run_id, params=missing[i : i + _MOST_PARAMS])

    def _log(self, one: Tracked, before: _Logged) -> _Logged:
        from mlflow.entities import Metric

        points = [
            Metric(series.name, value, _milliseconds(one.times[round]), round)
            for series in one.series
            for round, value in zip(series.rounds, series.values, strict=True)
            if round > before.last.get(series.name, 0)
        ]
        # Round by round, so that nothing is skipped where it breaks off.
        points.sort(key=lambda point: point.step)
        for i in range(0, len(points), _MOST_METRICS):
            self._client.log_batch(before.id, metrics=points[i : i + _MOST_METRICS])
        status = "FINISHED" if one.finished else "RUNNING"
        if status == "FINISHED" and (points or status != before.status):
            end = _milliseconds(max(one.times.values()))
            self._client.set_terminated(before.id, status, end)
        elif status != before.status:
            self._client.update_run(before.id, status=status)
        last = {series.name: series.rounds[-1] for series in one.series}
        return _Logged(before.id, status, {**before.last, **last})


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn MLflow's errors into a RunError that says what to do."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        raise RunError(
            f"MLflow: {error}\nThe run is complete without: `fedsub report FOLDER --mlflow URI` "
            "logs what is not logged yet"
        ) from error
