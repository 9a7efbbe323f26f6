"""Verifying a transcript of secure sums on a device: by itself, and by the device's receipts."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fedsub.deploy.transcript_checks import (
    Finding,
    Findings,
    check_differences,
    check_key,
    check_noise,
    check_people,
    check_roster,
    check_thresholds,
    fault,
    named,
)
from fedsub.deploy.verified_before import VerifiedBefore, check_begin
from fedsub_client.protections.device_roster import SEEN_FILE
from fedsub_client.protections.receipts import (
    DP_NOISE,
    ENDING,
    PREFIX,
    Receipt,
    read_receipts,
    receipts_file,
)
from fedsub_core.errors import RunError, cut, listed
from fedsub_core.secure.chain import Line, older_files, read_chain
from fedsub_core.secure.chain_form import NOISE, PROMISE, SUM
from fedsub_core.secure.people_list import PeopleList
from fedsub_core.secure.quantise import BESIDE
from fedsub_core.secure.roster import Roster, public_line
from fedsub_core.secure.transcript import digest


def verified(
    transcript: Path, state: Path | None, owner: Path | None, key: Path | None
) -> list[Finding]:
    """Return the findings of a transcript's checks; what held is noted beside the receipts.

    Parameters
    ----------
    transcript : its newest file, with the older ones beside it, or the newest of these.
    state : a device's folder, with receipts of the run; or its state-dir, with a single client.
    owner : the public key of the owner of the device's roster, which is in `state`.
    key : the transcript's key.

    Raises RunError if a file cannot be read, or there are no receipts of the transcript's run.
    """
    data = b"".join(map(_bytes, [*older_files(transcript), transcript]))
    try:
        lines = read_chain(data)
    except ValueError as error:
        return [Finding(f"chain: {transcript}: {error}", fault=True)]
    start, head = lines[0].entry, lines[-1].hash
    where = f"{len(lines)} entries of run {start['run']!r}, {start['method']}"
    every, damaged = ([], 0) if state is None else _receipts(state, str(start["run"]))
    before = None if state is None else VerifiedBefore.of(_folder(state), str(start["run"]))
    receipts = every if before is None or not start["before"] else every[before.receipts :]
    least = max((one.least for one in every), default=0)
    helped = {one.session for one in every if one.opened}
    checks: list[Findings] = [
        check_begin(lines, before),
        check_people(lines),
        check_thresholds(lines),
        check_differences(lines, least, helped),
        check_noise(lines),
    ]
    if receipts:
        checks.append(check_receipts(lines, receipts, {one.session for one in every}))
    if owner is not None:
        checks.append(check_roster(lines, _roster(state, owner)))
    if key is not None:
        checks.append(check_key(lines, _bytes(key)))
    found = [Finding(f"chain: {where}; its head is {head}")]
    for check in map(list, checks):
        # What a check says at its end holds where it found no fault.
        found += [one for one in check if one.fault] or check
    if every and not any(one.fault for one in found):
        assert state is not None
        VerifiedBefore(head, len(every)).note(_folder(state), str(start["run"]))
    if damaged:
        found.append(Finding(f"receipts: {damaged} lines are damaged, and were not used"))
    return found


def check_receipts(
    lines: Sequence[Line], receipts: Sequence[Receipt], known: Collection[str]
) -> Findings:
    """Check what a device keeps of its sums against the transcript; `known` are all sessions."""
    at = {line.hash: place for place, line in enumerate(lines)}
    by_session = {line.session: place for place, line in enumerate(lines) if line.kind == SUM}
    noise = {line.session: line for line in lines if line.kind == NOISE}
    counted, lost, last = 0, 0, -1
    client = receipts[0].client
    for one in receipts:
        who = f"client {client!r}, round {one.round}"
        shown = at.get(one.head, -1)
        if shown < max(last, 0):
            got = "an earlier head than before" if shown >= 0 else "which is not in it"
            got = f"the head {one.head[:16]}..., {got}"
            expected = "all that the device was shown, in order: it is cut, changed or another one"
            yield Finding(f"{who}: transcript: got {got}, expected {expected}", fault=True)
        last = max(last, shown)
        if (place := by_session.get(one.session)) is None:
            lost += not one.opened
            if one.opened:
                got = f"no sum of session {one.session[:16]}..., which this device helped to open"
                yield Finding(f"{who}: transcript: got {got}, expected it once", fault=True)
            continue
        if shown >= place:
            got, expected = "a head from behind the sum", "one from before it"
            yield Finding(f"{who}: transcript: got {got}, expected {expected}", fault=True)
        line = lines[place]
        yield from _receipt_faults(line, one, _promise(lines[:place]))
        if DP_NOISE in one.noise and (own := noise.get(one.session)) is not None:
            yield from _few_numbers(line, one, own)
        counted += line.opened and line.entry["sent"].get(one.leaf) == one.vector
        lost += not line.opened
    first = min((by_session[s] for s in by_session.keys() & known), default=len(lines))
    for line in lines[first:]:
        sent = line.entry["sent"] if line.kind == SUM and line.session not in known else ()
        if client in named(line, [*sent])[0]:
            got, expected = "one that it did not send", "those alone of which it has receipts"
            yield fault(line, f"client {client!r}: a vector", got, expected)
    more = f"; {lost} sums were not opened, as the server says" if lost else ""
    yield Finding(f"receipts: client {client!r}: {counted} vectors were counted, each once{more}")


def _receipt_faults(line: Line, one: Receipt, promise: Mapping[str, float]) -> Findings:
    """Yield what in the entry of a sum is not as the device was told."""
    entry, client = line.entry, f"client {one.client!r}"
    people = PeopleList([bytes.fromhex(leaf) for leaf in entry["people"]])
    hashes = [
        ("plan", digest(entry["plan"]), one.plan),
        ("list of people", people.digest, one.people),
        ("name of the vector", entry["once"], one.once),
    ]
    if line.opened:
        hashes.append(("what all were told", entry["told"], one.transcript))
        if one.opened or one.leaf in entry["sent"]:
            hashes.append(("vector", entry["sent"].get(one.leaf, "none"), one.vector))
        if len(entry["sent"]) < one.least:
            yield fault(
                line, f"{client}: vectors in the sum", len(entry["sent"]), f"{one.least} at least"
            )
        if line.round and promise != one.noise:
            yield fault(line, f"{client}: noise", promise or "none promised", one.noise or "none")
    for what, got, expected in hashes:
        if got != expected:
            yield fault(line, f"{client}: {what}", got[:16] or "none", expected[:16] or "none")


def _few_numbers(line: Line, one: Receipt, noise: Line) -> Findings:
    """Yield noise that is not on each number of a mean."""
    expected = one.numbers - BESIDE
    for drawn in noise.entry["draws"]:
        if (numbers := sum(number for number, _ in drawn["draws"])) != expected:
            yield fault(line, f"client {one.client!r}: noise", f"{numbers} numbers", expected)


def _promise(lines: Sequence[Line]) -> Mapping[str, float]:
    promises = [line.entry["noise"] for line in lines if line.kind == PROMISE]
    noise: Mapping[str, float] = promises[-1] if promises else {}
    return noise


def _folder(state: Path) -> Path:
    """Return the folder of the one client in a state-dir, or the folder itself."""
    if any(state.glob(f"{PREFIX}*{ENDING}")):
        return state
    inside = sorted({path.parent for path in state.glob(f"*/{PREFIX}*{ENDING}")})
    if len(inside) > 1:
        names = listed([path.name for path in inside], 5)
        raise RunError(f"{state}: got the states of {names}, expected one person's: add its name")
    return inside[0] if inside else state


def _receipts(state: Path, run: str) -> tuple[list[Receipt], int]:
    folder = _folder(state)
    path = receipts_file(folder, run)
    if not path.is_file():
        others = len(list(folder.glob(f"{PREFIX}*{ENDING}")))
        raise RunError(
            f"{folder}: got receipts of {others} other runs, and none of run {cut(repr(run))}, "
            "expected a device that sent something to this transcript's sums"
        )
    try:
        receipts, damaged = read_receipts(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    if not receipts:
        raise RunError(f"{path}: got {damaged} damaged lines, expected receipts of sums")
    return receipts, damaged


def _roster(state: Path | None, owner: Path) -> Roster:
    """Return the roster that a device saw last, if it is its owner's."""
    if state is None:
        raise RunError("--owner: got no --state, expected the device that has the roster")
    path = _folder(state) / SEEN_FILE
    try:
        return Roster.read(_bytes(path).partition(b"\n")[2], public_line(_bytes(owner)))
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from None
