"""What ``fedsub data inspect`` and ``import`` end with: tables, page, what a run would refuse."""

from pathlib import Path

from fedsub.commands.as_json import console_beside, print_json
from fedsub_core.errors import DataError, FedSubError
from fedsub_core.files import check_new_folder


def inspected(folder: str, out: Path | None = None, seed: int = 0, as_json: bool = False) -> None:
    """Print what the federation in `folder` is like, and write its page.

    Parameters
    ----------
    out : new folder for the page; None: below ``inspections``.
    as_json : print the numbers as JSON instead.

    Raises DataError where the federation cannot be read, or `fedsub run` would refuse it.
    """
    from fedsub_core.data.samples import NODE, TOKENS
    from fedsub_core.data.sources import load_outlines
    from fedsub_data.importing.resampled import resampled_people, resampled_sentences
    from fedsub_data.inspection.inspection import Look
    from fedsub_data.inspection.page import write_inspection
    from fedsub_data.inspection.tables import tables

    look = Look()
    federation = load_outlines(folder, look.see)
    target = out if out is not None else _free(Path("inspections", Path(folder).resolve().name))
    check_new_folder(target, DataError)
    resampled = resampled_sentences(resampled_people(folder))
    inspection = look.inspection(federation, seed, resampled)
    del look  # its features are not needed any more
    write_inspection(inspection, target)
    page, console = target / "report.html", console_beside(as_json)
    if as_json:
        print_json({"page": str(page), **inspection.as_dict()})
    else:
        console.print(tables(inspection))
    console.print(f"Page: {page}", soft_wrap=True, markup=False)
    # Last, for whoever looks at data that cannot be used wants to see what they are like; and what
    # learns is loaded now, when the memory that the look took is free again.
    from fedsub.studies.run import check_data
    from fedsub_core.config.own_training import SQUARED
    from fedsub_core.config.run_config import read_config

    try:
        # Of texts no units are known, of nodes no relevance and of targets no classes, which the
        # method by default needs; others train on them.
        card = federation.card
        others = card.sample in (NODE, TOKENS) or card.target is not None
        keys = {"method": "fedavg"} if others else {}
        keys |= {"loss": SQUARED, "beside": "local"} if card.target is not None else {}
        check_data(read_config(None, {"data": folder, **keys}), federation)
    except FedSubError as error:
        raise DataError(f"{folder}: `fedsub run` would refuse it. {error}") from error


def _free(folder: Path) -> Path:
    """Return `folder`, or its first numbered sibling that does not exist."""
    number = 1
    free = folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free
