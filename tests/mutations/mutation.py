"""Mutations: faults that are made on purpose, one at a time, and taken back."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class CannotRun(Exception):
    """A mutation, or tests, of which nothing can be said: it says what is wrong with them."""


@dataclass(frozen=True)
class Mutation:
    """A fault that is made on purpose.

    Parameters
    ----------
    name : the protection that is lost with it, in words.
    file : in which it is, from the root.
    old, new : the text that stands there once, and what takes its place.
    tests : files, folders or node ids, of which one test must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        """The package that it is in."""
        return self.file.partition("/")[0]

    @property
    def module(self) -> str:
        """The module that it is in, as it is imported."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def applied(self, tree: Path) -> str:
        """Return the text of its file in a tree of sources, with the fault.

        Raises
        ------
        CannotRun
            If the old text does not stand in the file once.
        """
        path = tree / self.file
        text = path.read_text("utf-8") if path.is_file() else ""
        if (times := text.count(self.old)) != 1:
            got = f"it {times} times" if path.is_file() else "no such file"
            raise CannotRun(
                f"{self.file}: expected {self.old!r} once, got {got}{self._moved(tree)}"
            )
        return text.replace(self.old, self.new)

    @contextmanager
    def made(self, tree: Path) -> Iterator[None]:
        """Make the fault in a copy of the sources, and take it back at the block's end.

        Raises
        ------
        CannotRun
            If it cannot be made.
        """
        path, mutated = tree / self.file, self.applied(tree)
        text, stat = path.read_text("utf-8"), path.stat()
        path.write_text(mutated, "utf-8")
        # What Python has compiled is told apart by whole seconds and sizes.
        os.utime(path, (stat.st_atime, stat.st_mtime + 10))
        try:
            yield
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, (stat.st_atime, stat.st_mtime))

    def _moved(self, tree: Path) -> str:
        """Return where else the old text stands, in words."""
        sources = (path for path in sorted(tree.glob("[!.]*/**/*.py")) if path != tree / self.file)
        there = [path for path in sources if self.old in path.read_text("utf-8")]
        places = ", ".join(str(path.relative_to(tree)) for path in there)
        return f"; it stands in {places}" if there else ""


def read(path: Path) -> list[Mutation]:
    """Return the mutations of a list in TOML.

    Raises
    ------
    CannotRun
        If two have one name, or one changes nothing or names no tests.
    """
    listed = tomllib.loads(path.read_text("utf-8"))["mutation"]
    found = [Mutation(**{**one, "tests": tuple(one["tests"])}) for one in listed]
    names = [one.name for one in found]
    for one in found:
        if names.count(one.name) > 1:
            raise CannotRun(f"{one.name}: got it twice, expected a name of its own")
        if one.old == one.new or not one.tests:
            raise CannotRun(f"{one.name}: expected a change, and tests that must fail")
    return found
