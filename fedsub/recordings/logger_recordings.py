"""Recordings as loggers write them: by a layout, or with a file for each sensor."""

from collections.abc import Iterator

from fedsub.recordings.source import BLOCK, rows_of
from fedsub_data.importing.joined_source import JoinedSource
from fedsub_data.importing.source import Rows


class LoggerRecordings:
    """Recordings as loggers write them, their sensors joined on time; a :class:`Recordings`.

    Memory holds one of them.
    """

    def __init__(self, source: JoinedSource) -> None:
        self._source, self._stream = source, source.rows()
        self._at, self._now = 0, next(self._stream)
        self.people = tuple(path.name for path in source.recordings)
        self.labels, self.rising, self.units = source.labels, source.rising, source.units
        self.features, self.time, self.ticks = source.features, source.time, source.ticks
        self.notes, self.rows, self.place = source.notes, source.rows, source.place
        self.lost, self.close = source.lost, source.close

    def blocks(self, file: int, size: int = BLOCK) -> Iterator[Rows]:
        """Yield a recording's rows, `size` at a time; recordings are asked for in their order."""
        while self._at < file:
            self._at, self._now = self._at + 1, next(self._stream)
        assert self._at == file, "recordings that have been passed over are gone"
        rows = self._now
        for at in range(0, len(rows), size):
            part = slice(at, at + size)
            t = None if rows.t is None else rows.t[part]
            yield rows_of(self.people[file], file, rows.row[part], t, rows.x[part])
