"""Writes the files of parts anew."""

from .files import PARTS, write

write(PARTS)
