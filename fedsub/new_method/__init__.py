"""Writes the package of a new method from the files in ``template/``."""

import keyword
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template

from fedsub_core.errors import ConfigError
from fedsub_core.files import write_whole
from fedsub_core.methods.table import BROKEN, METHODS, NOT_OFFERED

#: What files of the template end with: they are no code of ours.
ENDING = ".template"


def write_package(name: str, out: Path | None = None) -> Path:
    """Write the package that offers a method `name` into a new folder; return the folder.

    Parameters
    ----------
    out : the folder, which must not be there; ``fedsub-NAME`` if left out.

    Raises ConfigError if the name can be none, is taken, or the folder is there or cannot be made.
    """
    package = f"fedsub_{name}"
    _check(name, package)
    folder = out or Path(f"fedsub-{name}")
    title = "".join(part.capitalize() for part in name.split("_"))
    words = {"name": name, "Name": title, "package": package}
    try:
        folder.mkdir(parents=True)
        for place, text in _template(files(__package__) / "template"):
            where = folder / place.replace("package/", f"{package}/").replace("NAME", name)
            where.parent.mkdir(exist_ok=True)
            write_whole(where, Template(text).substitute(words).encode())
    except FileExistsError:
        raise ConfigError(
            f"{folder}: is there already; expected a new folder. Choose another with --out"
        ) from None
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written ({error.strerror})") from error
    return folder


def _check(name: str, package: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"new method: got {name!r}, expected a name of small letters, digits and _ that begins "
            "with a letter and is not a Python keyword"
        )
    if name in METHODS or name in BROKEN or name in NOT_OFFERED:
        raise ConfigError(f"new method: got {name!r}, which is the name of another method")
    if find_spec(package) is not None:
        raise ConfigError(f"new method: got {name!r}, but a package {package} is installed already")


def _template(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the template's files: path without the ending, and text."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _template(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(ENDING):
            yield path + entry.name.removesuffix(ENDING), entry.read_text("utf-8")
