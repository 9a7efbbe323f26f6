"""The raw file of WISDM v1.1, ``user,activity,timestamp,x,y,z;`` at 20 Hz, with its known faults.

The official file has records that share a line, semicolons that are missing or doubled, commas
before them, records without z or with timestamp 0, and records that are there twice. Each is
repaired or dropped and counted. What none of these explains is refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import Counts, refused, text_lines

CLASSES = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")
PEOPLE = range(1, 37)

USERS = {str(user): user for user in PEOPLE}
LABELS = {name: label for label, name in enumerate(CLASSES)}

_FORM = "user,activity,timestamp,x,y,z;"


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples in the order of the file.

    Parameters
    ----------
    user : int64 [n], from 1 to 36.
    label : int64 [n], index into :data:`CLASSES`.
    stamp : int64 [n], the phone's uptime, "generally" in nanoseconds.
    acceleration : float64 [n, 3], x, y, z with gravity, m/s^2.
    """

    user: NDArray[np.int64]
    label: NDArray[np.int64]
    stamp: NDArray[np.int64]
    acceleration: NDArray[np.float64]

    def kept(self, keep: NDArray[np.bool_]) -> Rows:
        """Return the rows where `keep`, bool [n], is true."""
        return Rows(self.user[keep], self.label[keep], self.stamp[keep], self.acceleration[keep])


def read_rows(lines: Iterable[bytes], path: str) -> tuple[Rows, Counts]:
    """Return the rows of the raw file, repaired, and what happened to them.

    Parameters
    ----------
    lines : iterable of bytes
    path : the file's name, for messages.

    Raises DataError at the first line that is not UTF-8 or has another number of columns than a
    known fault explains, an unknown user or activity, or a number that is none or not finite.
    """
    counts = Counts.zero("rows read")
    integers, numbers = array("q"), array("d")
    for number, line in text_lines(lines, path):
        fields = line.split(",")
        if len(fields) == 6 and line.count(";") == 1 and fields[5].find(";") == len(fields[5]) - 1:
            fields[5] = fields[5][:-1]
            records = [fields]
        else:
            records = _repaired(line, number, path, counts)
        counts["rows read"] += len(records)
        for user, activity, stamp, x, y, z in records:
            try:
                row = USERS[user], LABELS[activity], _uptime(stamp)
                values = float(x), float(y), float(z)
            except (KeyError, ValueError):
                if not z.strip() and user in USERS and activity in LABELS:
                    counts.add("rows dropped: no z")
                    continue
                raise _wrong(user, activity, stamp, (x, y, z), number, path) from None
            if not isfinite(sum(values)) or "_" in line:
                raise _wrong(user, activity, stamp, (x, y, z), number, path)
            if row[2] == 0:
                counts.add("rows dropped: timestamp 0")
                continue
            integers.extend(row)
            numbers.extend(values)
    columns = np.asarray(integers, np.int64).reshape(-1, 3)
    acceleration = np.asarray(numbers, np.float64).reshape(-1, 3)
    rows = Rows(columns[:, 0], columns[:, 1], columns[:, 2], acceleration)
    return _once(rows, counts), counts


def _uptime(text: str) -> int:
    stamp = int(text)
    if not 0 <= stamp < 2**63:
        raise ValueError
    return stamp


def _repaired(line: str, number: int, path: str, counts: Counts) -> list[list[str]]:
    """Return the six fields of each record on a line that is not like the others."""
    if not line.strip():
        counts.add("rows read")
        counts.add("rows dropped: empty")
        return []
    *ended, last = (piece.strip() for piece in line.split(";"))
    pieces = [piece for piece in (*ended, last) if piece]
    doubled = ended.count("")
    if doubled:
        counts.add("rows repaired: doubled semicolon", doubled)
    if last:
        counts.add("rows repaired: missing semicolon")
    records = []
    for piece in pieces:
        fields = piece.split(",")
        if len(fields) == 7 and not fields[6]:
            counts.add("rows repaired: comma before the semicolon")
            fields = fields[:6]
        if len(fields) == 11 and fields[:2] == [fields[5][-len(fields[0]) :], fields[6]]:
            # Without a separator the next user's number touches z. It can be told from it only
            # because both records are the same person's.
            counts.add("rows repaired: missing semicolon")
            records.append([*fields[:5], fields[5].removesuffix(fields[0])])
            fields = [fields[0], *fields[6:]]
        if len(fields) != 6:
            got = f"{len(fields)} columns in {piece[:80]!r}"
            raise refused(path, got, f"the 6 of {_FORM}", number)
        records.append(fields)
    if len(records) > 1:
        counts.add("rows repaired: several on one line", len(records) - 1)
    if not records:
        counts.add("rows read")
        counts.add("rows dropped: empty")
    return records


def _wrong(
    user: str, activity: str, stamp: str, values: Iterable[str], number: int, path: str
) -> DataError:
    """Return the error that names what is wrong in a record of six columns."""
    if user not in USERS:
        return refused(path, f"user {user!r}", "a user from 1 to 36", number)
    if activity not in LABELS:
        return refused(path, f"activity {activity!r}", f"one of {', '.join(CLASSES)}", number)
    if not (stamp.isdecimal() and len(stamp) < 20 and int(stamp) < 2**63):
        return refused(path, f"timestamp {stamp!r}", "whole nanoseconds from 0 on", number)
    got = f"accelerations {', '.join(values)}"
    return refused(path, got, f"three finite numbers, {_FORM}", number)


def _once(rows: Rows, counts: Counts) -> Rows:
    """Return the rows without those that are there twice.

    A phone polled faster than its sensor wrote one reading several times; a recording that is in
    the file twice would lie on both sides of a split.
    """
    x, y, z = rows.acceleration.T
    columns = {"u": rows.user, "l": rows.label, "t": rows.stamp, "x": x, "y": y, "z": z}
    again = pd.DataFrame(columns).duplicated().to_numpy()
    held = np.zeros(len(again), np.bool_)
    held[1:] = np.logical_and.reduce([c[1:] == c[:-1] for c in columns.values()])
    counts.add("rows dropped: same as the row before", int(held.sum()))
    counts.add("rows dropped: repeated from earlier in the file", int((again & ~held).sum()))
    return rows.kept(~again)
