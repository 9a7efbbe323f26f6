"""Writes the package of a new method."""

from fedsub.new_method.write import write_package

__all__ = ["write_package"]
