"""The file of a transcript: it goes on after a crash, and is refused where it was damaged."""

from pathlib import Path

import pytest

from fedsub.deploy.transcript_checks import check_noise, check_people
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.secure.chain import older_files, read_chain
from fedsub_core.secure.chain_form import NOISE, PROMISE, START, SUM
from strategies.protections import sum_transcript
from strategies.protections.sum_transcript import SumTranscript, forget_in_transcript
from strategies.rounds.context import DrawnNoise, PromisedNoise

from ...fedsub_core.secure.people import Sum

PROMISED = PromisedNoise({"dp-noise": 1.0, "dp-clip": 0.5}, 7)
DRAWN = DrawnNoise(2**255 + 3, ((4, 0.5),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"


def opened(round: int = 1, lost: bool = False) -> Sum:
    one = Sum(4, seed=round, round=round)
    one.keys()
    one.shares()
    one.vectors()
    if not lost:
        one.unmask()
    return one


def add(path: Path, *rounds: int, run: str = "run") -> SumTranscript:
    made = SumTranscript(path, run, "fedavg")
    for round in rounds:
        one = opened(round)
        made.add(one.server, one.plain())
    return made


def kinds(path: Path) -> list[str]:
    return [line.kind for line in read_chain(path.read_bytes())]


def test_it_goes_on_where_it_was_left(path: Path) -> None:
    head = add(path, 1).head
    assert SumTranscript(path, "run", "fedavg").head == head
    assert add(path, 2).head != head and kinds(path) == [START, SUM, SUM]
    assert [f.stat().st_mode & 0o777 for f in path.parent.iterdir()] == [0o600] * 2


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    made, one = SumTranscript(), opened()
    made.promise(PROMISED)
    made.add(one.server, one.plain())
    made.drawn([DRAWN])
    assert made.head == b"" and not list(tmp_path.iterdir())
    assert "head" not in one.plans["p000"].record()


def test_a_line_at_whose_writing_it_died_is_removed(path: Path) -> None:
    head = add(path, 1).head
    whole = path.read_bytes()
    for part in (b"{", whole.splitlines()[1][:-1], b"\0" * 9):
        path.write_bytes(whole + part)
        assert SumTranscript(path, "run", "fedavg").head == head and path.read_bytes() == whole
    # Of the first one, too.
    path.write_bytes(whole[:20])
    add(path, 1)
    assert kinds(path) == [START, SUM]


def test_what_is_damaged_is_refused_and_left(path: Path) -> None:
    add(path, 1, 2)
    whole = path.read_bytes()
    changed = whole.replace(b'"least":3', b'"least":2', 1)
    cut = b"\n".join(whole.split(b"\n")[:1] + whole.split(b"\n")[2:])
    for data, number in ((changed, 3), (cut, 2)):
        path.write_bytes(data)
        with refused(RunError, str(path), f"line {number}"):
            add(path)
        assert path.read_bytes() == data
    path.write_bytes(whole)
    with refused(RunError, str(path), got="'run'", expected="'another'"):
        add(path, run="another")
    key = path.with_suffix(".key")
    kept = key.read_bytes()
    for other in (bytes(32), bytes(3), None):
        key.unlink()
        if other is not None:
            key.write_bytes(other)
        with refused(RunError):
            add(path)
        key.write_bytes(kept)
    add(path)


def test_a_sum_that_was_lost_stands_there_without_one(path: Path) -> None:
    made, one = add(path), opened(lost=True)
    made.add(one.server, None)
    (line,) = read_chain(path.read_bytes())[1:]
    assert (line.opened, line.entry["told"], len(line.entry["sent"])) == (False, "", 4)


def test_the_same_promise_is_written_once(path: Path) -> None:
    for _ in range(2):
        SumTranscript(path, "run", "fedavg").promise(PROMISED)
    assert kinds(path) == [START, PROMISE]


def test_each_sum_has_noise_or_says_that_nothing_was_released(path: Path) -> None:
    made = add(path)
    for round in (0, 1, 2):
        one = opened(round) if round else opened(3)
        if round:
            made.promise(PROMISED)
        made.add(one.server, one.plain())
        made.drawn([DRAWN] if round == 1 else [])
    # It dies behind a sum: of that nothing was released.
    one = opened(4)
    made.add(one.server, one.plain())
    again = SumTranscript(path, "run", "fedavg")
    again.promise(PROMISED)
    one = opened(5)
    again.add(one.server, one.plain())
    again.drawn([DRAWN])
    assert kinds(path) == [START, SUM, PROMISE, *[SUM, NOISE] * 4]
    lines = read_chain(path.read_bytes())
    assert [len(line.entry["draws"]) for line in lines if line.kind == NOISE] == [1, 0, 0, 1]
    (said,) = check_noise(lines)
    assert not said.fault and "for 2 sums; of 2 nothing" in said.text
    # Nobody without the key sees the seed.
    assert f"{DRAWN.seed:064x}" not in path.read_text()


def test_who_is_forgotten_is_no_longer_named_and_the_chain_holds(path: Path) -> None:
    head = add(path, 1, 2).head
    before = read_chain(path.read_bytes())
    keys = [own[1] for line in before for own in line.people.values() if own[0] == "p001"]
    forget_in_transcript(path, "p001")
    text, lines = path.read_text(), read_chain(path.read_bytes())
    assert len(keys) == 2 and not any(key in text for key in (*keys, "p001"))
    assert [line.hash for line in lines] == [line.hash for line in before]
    assert add(path).head == head
    (said,) = check_people(lines)
    assert not said.fault and "2 have no name" in said.text
    forget_in_transcript(path, "p001")
    forget_in_transcript(path.with_name("none.jsonl"), "p001")
    assert read_chain(path.read_bytes()) == lines


def test_a_full_disk_is_said_and_the_head_stays(path: Path) -> None:
    made = add(path, 1)
    head, one = made.head, opened(2)
    whole = path.read_bytes()
    path.unlink()
    path.mkdir()
    with refused(RunError, str(path)):
        made.add(one.server, one.plain())
    path.rmdir()
    path.write_bytes(whole)
    assert made.head == head
    made.add(one.server, one.plain())
    assert kinds(path) == [START, SUM, SUM]


def test_a_line_has_no_words_of_the_sum(path: Path) -> None:
    """Who guesses a sum cannot check the guess: it is committed to with the key."""
    add(path, 1), add(path.with_name("other.jsonl"), 1)
    first, second = (
        read_chain(path.with_name(name).read_bytes())[1] for name in (path.name, "other.jsonl")
    )
    assert first.entry["sent"] == second.entry["sent"]
    assert first.entry["sum"] != second.entry["sum"]


def whole(path: Path) -> bytes:
    """Return the bytes of all files of a transcript, in their order."""
    return b"".join(one.read_bytes() for one in (*older_files(path), path))


def test_a_long_one_goes_on_in_another_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = SumTranscript(path, "run", "fedavg")
    made.promise(PROMISED)
    made.add((one := opened(1)).server, one.plain())
    monkeypatch.setattr(sum_transcript, "FILE_BYTES", 1000)
    for round in (2, 3):  # the process of round 1 died before it released anything
        made = SumTranscript(path, "run", "fedavg")
        made.promise(PROMISED)
        made.add((one := opened(round)).server, one.plain())
        made.drawn([DRAWN])
    older = [file.name for file in older_files(path)]
    assert older == ["transcript-00000001.jsonl", "transcript-00000002.jsonl"]
    first = [START, PROMISE, SUM, NOISE]
    lines = read_chain(whole(path))
    assert [line.kind for line in lines] == 3 * first
    assert not any(one.fault for one in check_noise(lines))
    assert [line.kind for line in read_chain(path.read_bytes())] == first
    files = [*path.parent.glob("*.jsonl")]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 3


def test_a_new_file_begins_with_a_plan_and_replaces_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sum_transcript, "FILE_BYTES", 1000)
    made = SumTranscript(path, "run", "fedavg")
    made.promise(PROMISED)
    for _ in range(2):  # two sums in one round
        made.head_of_plans()
        made.add((one := opened(1)).server, one.plain())
        made.drawn([DRAWN])
    head = made.head_of_plans()
    assert [file.name for file in older_files(path)] == ["transcript-00000001.jsonl"]
    kept = older_files(path)[0].read_bytes()
    assert made.head_of_plans() == head and older_files(path)[0].read_bytes() == kept
    lines = read_chain(whole(path))
    assert [line.kind for line in lines].count(SUM) == 2 and lines[-1].hash == head.hex()


@pytest.mark.parametrize("left", [None, b"", b'{"entry"'], ids=["no file", "empty", "cut"])
def test_a_process_that_died_between_two_files_goes_on(
    path: Path, left: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = add(path, 1).head
    path.rename(path.with_stem("transcript-00000001"))
    if left is not None:
        path.write_bytes(left)
    add(path, 2)
    lines = read_chain(whole(path))
    assert [line.kind for line in lines] == [START, SUM, START, SUM]
    assert lines[2].entry["before"] == head.hex()
    with refused(RunError, "run", "another"):
        add(path, 3, run="another")


def test_a_second_start_must_be_that_of_the_same_transcript(path: Path, tmp_path: Path) -> None:
    add(path, 1)
    one = path.read_bytes()
    path.unlink()
    path.with_suffix(".key").unlink()
    add(path, 1)
    with pytest.raises(ValueError, match="line 3"):
        read_chain(one + path.read_bytes())
    with pytest.raises(ValueError, match="line 3"):
        read_chain(one + one)


def test_somebody_is_taken_out_of_all_files(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(path, 1)
    monkeypatch.setattr(sum_transcript, "FILE_BYTES", 1000)
    add(path, 2)
    forget_in_transcript(path, "p001")
    lines = read_chain(whole(path))
    names = [{own[0] for own in line.people.values()} for line in lines if line.kind == SUM]
    assert names == [{"p000", "p002", "p003"}] * 2
