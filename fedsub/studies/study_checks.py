"""What excludes each other in a study, refused before anything is trained."""

from __future__ import annotations

from pathlib import Path

from fedsub.studies.study import Study, concerns, shown, task_of, tasks
from fedsub.studies.study_parts import DECIDED
from fedsub_core.errors import ConfigError

#: Keys that decide which samples are tested, and by whom they may be trained.
_TESTED = frozenset({
    "data", "split", "test-share", "train-share", "unlabelled", "unlabelled-classes",
    "unseen-by", "unseen-share", "unseen-rounds",
})  # fmt: skip


def check_study(path: Path, study: Study) -> None:
    """Refuse a study whose parts are right each, and wrong together.

    Parameters
    ----------
    path : of its file, which messages begin with.

    Raises
    ------
    ConfigError
        It names the file and the key.
    """
    _check_given_once(path, study)
    _check_tuned(path, study)
    for printed in study.papers:
        if not any(printed.of(cell) for cell in study.cells):
            raise ConfigError(
                f"{path}: paper: where: got {dict(printed.where)!r}, expected what [vary] has"
            )
    sources: dict[str, str] = {}
    for task in tasks(study, lambda entry, cell: study.candidates(entry)[0]):
        # Each was checked when it was made.
        source = task.config.data
        if (other := sources.setdefault(shown(source), source)) != source:
            raise ConfigError(
                f"{path}: data: got {other} and {source}, expected folders of different names: "
                "runs and tables are called by these"
            )
    for name, how in study.made.items():
        if name not in sources or not isinstance(how, str):
            raise ConfigError(
                f"{path}: made: {name}: got {how!r}, expected how one of {', '.join(sources)} is "
                "made, in words"
            )
    for entry in study.entries:
        for tuned in study.candidates(entry):
            task_of(study, entry, study.cells[0], study.seeds[0], tuned, tuning=True)


def _check_given_once(path: Path, study: Study) -> None:
    """Refuse a key of [vary] that [tune] or a method would override: its table would be called so.

    Raises
    ------
    ConfigError
        It names the file and the key.
    """
    fixed = {f"{e.method}.{key}": e.label for e in study.entries for key in e.hyper}
    for key in dict.fromkeys(key for cell in study.cells for key, _ in cell):
        if key in study.tune or key in fixed:
            other = f"[methods] of {fixed[key]!r}" if key in fixed else "[tune]"
            raise ConfigError(
                f"{path}: vary: {key}: got it in {other}, too; expected it in one of them"
            )


def _check_tuned(path: Path, study: Study) -> None:
    """Refuse a key of [tune] that no row has, or that decides what is tested; raises as above."""
    for key in study.tune:
        if key in DECIDED or key in _TESTED:
            raise ConfigError(
                f"{path}: tune: {key}: got {study.tune[key]!r}, expected it in [run] or [vary]: "
                "rows that differ in what they are tested on cannot be compared"
            )
        if key == "rounds" or (key == "epochs" and study.budget == "compute"):
            raise ConfigError(
                f"{path}: tune: {key}: got {study.tune[key]!r}, expected it in [run] or [vary]: "
                f"rows would not be equal in {study.budget}"
            )
        if not any(concerns(key, entry) for entry in study.entries):
            has = ", ".join(dict.fromkeys(entry.method for entry in study.entries))
            raise ConfigError(
                f"{path}: tune: {key}: no row of [methods] has it. Expected a key of a run, or one "
                f"of {has}, which the row itself does not fix"
            )
