"""Federations that a study names and nobody has made yet: which, and how to get each."""

from pathlib import Path

from fedsub.studies.study import Cell, Study, shown
from fedsub_core.data.sources import WATCH
from fedsub_core.errors import DataError
from fedsub_data.catalogue.catalogue import names, read_dataset_card


def absent_data(study: Study) -> dict[str, str]:
    """Return instructions by the path of each federation of the study that is not there.

    The study's file says it (``[made]``), else the catalogue of data sets.
    """
    sources = dict.fromkeys(source_of(study, cell) for cell in study.cells)
    gone = [source for source in sources if source != WATCH and not Path(source).exists()]
    return {source: f"{source}: no such folder. {_how(study, shown(source))}" for source in gone}


def check_some_data(study: Study) -> None:
    """Refuse a study of which no table can be made.

    Raises DataError; it names each federation, and says how to get it.
    """
    absent = absent_data(study)
    if absent.keys() >= {source_of(study, cell) for cell in study.cells}:
        raise DataError(f"study {study.title!r}: its data are not there.\n" + listing(absent))


def listing(absent: dict[str, str]) -> str:
    """Return a line for each federation that is not there."""
    return "\n".join(f"data {shown(source)}: {what}" for source, what in absent.items())


def source_of(study: Study, cell: Cell) -> str:
    """Return where the federation of a table lies."""
    return str({"data": WATCH, **study.run, **dict(cell)}["data"])


def _how(study: Study, name: str) -> str:
    if name in study.made:
        return f"Make it: {study.made[name]}"
    if name not in names():
        return (
            "Check the path, or say with --data in which folder it lies; studies/README.md has how "
            "federations of studies are made"
        )
    source = read_dataset_card(name).source
    made = f"`fedsub data prepare {name} --source FILES --out {name}`"
    get = {
        "open": f"`fedsub data fetch {name} --accept-terms`, then {made}",
        "installed": f"`fedsub data prepare {name} --out {name}`",
        "by-hand": f"download the official files ({source.page}), then {made}",
        "credentialed": f"ask its owner for access ({source.apply}), then {made}",
    }[source.access]
    return f"Get it: {get}; `fedsub data show {name}` says more"
