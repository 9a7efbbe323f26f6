"""The catalogue of data sets: reads the cards ``datasets/<name>/card.toml``, and packages'."""

from __future__ import annotations

import tomllib
from pathlib import Path

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion
from fedsub_data.catalogue.card_rules import check_dataset_card
from fedsub_data.catalogue.dataset_card import DatasetCard
from fedsub_data.catalogue.installed import installed, installed_data_set
from fedsub_data.catalogue.strict_tables import strict

CARD_FILE = "card.toml"


def datasets_folder() -> Path:
    """Return the folder of the cards: the checkout's, or where pip put it.

    Raises
    ------
    DataError
        Where it is at none of these places.
    """
    # Beside an installed fedsub may lie another project's package "datasets": ask for our card.
    package = Path(__file__).resolve().parents[1]
    places = [package.parent / "datasets", package / "cards"]
    for place in places:
        if (place / "watch" / CARD_FILE).is_file():
            return place
    tried = ", ".join(str(place) for place in places)
    raise DataError(f"the data sets' cards are at none of {tried}. Reinstall fedsub.")


def house_names() -> list[str]:
    """Return the names of FedSub's own data sets, in order."""
    return sorted(path.parent.name for path in datasets_folder().glob(f"*/{CARD_FILE}"))


def names() -> list[str]:
    """Return the names of all data sets, in order."""
    return sorted({*house_names(), *installed()})


def read_dataset_card(name: str) -> DatasetCard:
    """Return the card of the data set `name`.

    Raises
    ------
    DataError
        Where there is no such data set (suggests the nearest name), or its card is no TOML, has
        an unknown key, lacks one, or has a value that cannot be.
    """
    known = names()
    if name not in known:
        raise DataError(
            f"unknown data set {name!r}; known are {', '.join(known)}.{suggestion(name, known)}"
        )
    own = name in house_names()
    folder = datasets_folder() / name if own else installed_data_set(name).folder
    path = folder / CARD_FILE
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as TOML: {error}. Correct the file.") from error
    card = strict(DatasetCard, table, path)
    check_dataset_card(card, path)
    return card
