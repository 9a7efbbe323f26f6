"""People and classes of a source: refused where there are none, or too few."""

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.devices import check_names
from fedsub_data.importing.labels import NO_CLASS
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Source


def check_people_and_classes(
    source: Source, options: ImportOptions, name: str, fewest: int
) -> None:
    """Refuse a source of nobody, of one class, or of sensors instead of people."""
    if not source.people:
        check = spelt("subject")
        raise DataError(f"{name}: got no row with a person, expected some. Check {check}")
    unlabelled = "".join(f". {note}" for note in source.notes if note.startswith(NO_CLASS))
    if not source.labels:
        raise DataError(
            f"{name}: got no row with a label, expected some. Check {spelt('label')}{unlabelled}"
        )
    if len(source.labels) < fewest:
        raise DataError(
            f"{name}: got one class, {source.labels[0]!r}, expected two at least. Check "
            f"{spelt('label')} and {spelt('no-label')}, or import the other files, too{unlabelled}"
        )
    check_names(source.people, options)
