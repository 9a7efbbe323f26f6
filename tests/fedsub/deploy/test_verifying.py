"""Transcripts of real devices' sums: they verify, and each lie about them is found and named."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from flwr.app import ConfigRecord, Message

from fedsub.cli import cli
from fedsub.deploy.roster import OWNER_FILE
from fedsub.deploy.transcript_checks import Finding, check_differences, check_thresholds
from fedsub.deploy.verifying import verified
from fedsub.engines.simulation import train_method
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.protections.receipts import ENDING, PREFIX
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.secure.chain import Line, older_files, read_chain
from fedsub_core.secure.chain_form import NOISE, PROMISE, SUM
from fedsub_core.secure.messages import SECURE
from fedsub_server.run_folder import TRANSCRIPT_FILE
from strategies.protections.sum_transcript import SumTranscript

from ...fedsub_core.secure.people import Sum
from ...methods.server_of_sums import SUMS, Devices, Server, devices, give_roster

Change = Callable[[list[Line]], list[Line]]


def run_of(folder: Path, run: str = "a run", **keys: Any) -> tuple[RunConfig, Devices]:
    """Run four people's devices, who have a roster; the transcript lies in the folder."""
    write_federation(folder / "data", people())
    config = RunConfig(**dict(method="fedavg", beside="", data=str(folder / "data")) | SUMS | keys)
    grid = devices(folder, config)
    give_roster(grid, folder / "keys")
    Server(config, grid, run, folder / TRANSCRIPT_FILE)
    return config, grid


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    run_of(folder, standardise="federation", rounds=3)
    return folder


@pytest.fixture(scope="module")
def noised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("noised")
    run_of(folder, dp_noise=1.0, dp_clip=0.2)
    return folder


def faults(found: list[Finding]) -> str:
    return "\n".join(one.text for one in found if one.fault)


def linked(lines: list[Line]) -> list[Line]:
    """Return lines as a server that lies would write them: each follows on the one before."""
    found, before = list[Line](), ""
    for line in lines:
        found.append(replace(line, entry=line.entry | {"before": before}))
        before = found[-1].hash
    return found


def found_in(folder: Path, tmp_path: Path, change: Change, client: str = "p1") -> str:
    """Return the faults that a device finds in a transcript that was changed."""
    lines = read_chain((folder / TRANSCRIPT_FILE).read_bytes())
    path = tmp_path / TRANSCRIPT_FILE
    path.write_bytes(b"".join(line.written() for line in change(lines)))
    return faults(verified(path, folder / "states" / client, None, None))


def other(line: Line, **parts: Any) -> Line:
    return replace(line, entry=line.entry | parts)


def own_leaf(line: Line, client: str = "p1") -> str:
    return next(at for at, own in line.people.items() if own[0] == client)


@pytest.mark.parametrize("client", ["p1", "p2", "p3", "p4"])
def test_it_verifies_for_each_person(run: Path, client: str) -> None:
    path, owner = run / TRANSCRIPT_FILE, run / "keys" / f"{OWNER_FILE}.pub"
    command = ["deploy", "verify", str(path), "--state", str(run / "states" / client)]
    done = CliRunner().invoke(cli, [*command, "--owner", str(owner)])
    lines = done.output.splitlines()
    assert done.exit_code == 0 and all(line.startswith("ok: ") for line in lines)
    checks = [line.split(":")[1].strip() for line in lines]
    every = "chain", "people", "thresholds", "differences", "noise", "receipts", "roster"
    assert checks == list(every)
    # What all standardise by, and three rounds.
    assert "4 vectors were counted" in done.output and "16 signatures" in done.output
    kept = next((run / "states" / client).glob(f"{PREFIX}*{ENDING}"))
    assert kept.stat().st_mode & 0o777 == 0o600


def test_noise_verifies_and_is_drawn_again_with_the_key(noised: Path, tmp_path: Path) -> None:
    path, key = noised / TRANSCRIPT_FILE, noised / "transcript.key"
    assert key.stat().st_mode & 0o777 == 0o600
    found = verified(path, noised / "states" / "p1", None, key)
    assert not faults(found) and "2 draws of noise" in found[-1].text
    (tmp_path / "other.key").write_bytes(bytes(32))
    assert "key" in faults(verified(path, None, None, tmp_path / "other.key"))


@pytest.mark.parametrize(("noise", "sums"), [(0.0, 3), (1.0, 2)])
def test_sums_of_features_verify(noise: float, sums: int, tmp_path: Path) -> None:
    name = "fedsub-ridge"
    hyper = {name: method(name).hyperparameters(noise=noise)}
    run_of(tmp_path, method=name, hyper=hyper, encoder="relu:8", rounds=3)
    path, key = tmp_path / TRANSCRIPT_FILE, tmp_path / "transcript.key"
    found = verified(path, tmp_path / "states" / "p1", None, key)
    assert not faults(found) and f"{sums} vectors were counted" in found[-2].text
    names = [line.entry["once"] for line in read_chain(path.read_bytes()) if line.kind == SUM]
    assert names[:2] == ["", "statistics"] and len(names) == sums
    # Gram and cross are drawn apart.
    assert f"{2 if noise else 0} draws of noise" in found[-1].text


def test_a_server_that_dies_and_repeats_a_round_of_the_same_people_is_no_fault(
    tmp_path: Path,
) -> None:
    config, grid = run_of(tmp_path, rounds=1)
    path = tmp_path / TRANSCRIPT_FILE
    assert Server(config, grid, transcript=path).metric("secure_people") == {1: 4}
    assert "1 pairs of sums" in verified(path, None, None, None)[3].text
    # Of fewer people nobody helps.
    grid.passes = lambda m: m.metadata.message_type != "train" or m.metadata.dst_node_id != 3
    assert Server(config, grid, transcript=path).metric("secure_lost") == {1: 1}
    for client in ("p1", "p3"):
        found = verified(path, tmp_path / "states" / client, None, None)
        assert not faults(found) and "2 vectors were counted" in found[-1].text


def dropped(at: int) -> Change:
    return lambda lines: lines[:at] + lines[at + 1 :]


def exchanged(lines: list[Line]) -> list[Line]:
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


@pytest.mark.parametrize(
    ("change", "number"),
    [(dropped(2), 3), (exchanged, 3), (lambda lines: [*lines, lines[-1]], 6)],
    ids=["cut in the middle", "exchanged", "an entry twice"],
)
def test_a_chain_that_broke_is_named_by_its_line(
    run: Path, tmp_path: Path, change: Change, number: int
) -> None:
    assert f"line {number}: " in found_in(run, tmp_path, change)


@pytest.mark.parametrize(
    "change",
    [dropped(2), exchanged, lambda lines: [lines[0], other(lines[1], least=2), *lines[2:]]],
    ids=["cut in the middle", "exchanged", "changed"],
)
def test_a_chain_that_was_made_anew_lacks_the_heads_that_devices_were_shown(
    run: Path, tmp_path: Path, change: Change
) -> None:
    text = found_in(run, tmp_path, lambda lines: linked(change(lines)))
    assert "client 'p1', round 3: transcript: got the head" in text


def test_an_end_that_is_cut_off_is_missed(run: Path, tmp_path: Path) -> None:
    assert "client 'p1', round 3: transcript: got no sum" in found_in(
        run, tmp_path, lambda lines: lines[:-1]
    )
    path = tmp_path / "part.jsonl"
    path.write_bytes((run / TRANSCRIPT_FILE).read_bytes()[:-9])
    assert "cut off" in faults(verified(path, None, None, None))


def replaced_vector(line: Line) -> Line:
    return other(line, sent=line.entry["sent"] | {own_leaf(line): "0" * 64})


def someone_elses_vector(line: Line) -> Line:
    theirs = line.entry["sent"][own_leaf(line, "p2")]
    return other(line, sent=line.entry["sent"] | {own_leaf(line): theirs})


def without_leaf(client: str) -> Callable[[Line], Line]:
    """Return a change that takes a person out of a sum."""

    def change(line: Line) -> Line:
        gone = own_leaf(line, client)
        sent = {at: vector for at, vector in line.entry["sent"].items() if at != gone}
        left = [at for at in line.entry["people"] if at != gone]
        names = {at: own for at, own in line.people.items() if at != gone}
        return replace(other(line, sent=sent, people=left), people=names)

    return change


def two_people(line: Line) -> Line:
    few = [own_leaf(line), own_leaf(line, "p2")]
    return other(line, sent={at: line.entry["sent"][at] for at in few})


def renamed(line: Line) -> Line:
    at = own_leaf(line, "p2")
    return replace(line, people=line.people | {at: ["eve", *line.people[at][1:]]})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (replaced_vector, "client 'p1': vector: got 0000"),
        (someone_elses_vector, "a vector: got that of round 3"),
        (without_leaf("p2"), "client 'p1': list of people"),
        (without_leaf("p1"), "client 'p1': vector: got none"),
        (two_people, "vectors in the sum: got 2, expected 3"),
        (renamed, "client 'eve': got a name or keys"),
        (lambda line: other(line, told="0" * 64), "client 'p1': what all were told: got 0000"),
        (lambda line: other(line, plan=line.entry["plan"] | {"each": 1}), "client 'p1': plan"),
        (lambda line: other(line, once="statistics"), "client 'p1': name of the vector"),
    ],
)
def test_the_last_entry_is_found_out_though_no_head_follows(
    run: Path, tmp_path: Path, change: Callable[[Line], Line], named: str
) -> None:
    text = found_in(run, tmp_path, lambda lines: linked([*lines[:-1], change(lines[-1])]))
    assert f"round 3, {named}" in text


def test_a_sum_that_stands_there_twice_is_found(run: Path, tmp_path: Path) -> None:
    text = found_in(run, tmp_path, lambda lines: linked([*lines, lines[-1]]))
    assert "round 3, session" in text and "round 3, a vector" in text


def test_a_vector_that_the_device_did_not_send_is_found(run: Path, tmp_path: Path) -> None:
    def invented(lines: list[Line]) -> list[Line]:
        plan = lines[-1].entry["plan"] | {"round": 4, "session": "0" * 32}
        sent = {at: f"{i:064x}" for i, at in enumerate(lines[-1].entry["sent"])}
        return linked([*lines, other(lines[-1], plan=plan, sent=sent)])

    assert "round 4, client 'p1': a vector" in found_in(run, tmp_path, invented)


def test_a_transcript_of_another_run_is_refused(run: Path, noised: Path, tmp_path: Path) -> None:
    with refused(RunError, got="none of run", expected="this transcript"):
        run_of(tmp_path, run="another", rounds=1)
        verified(tmp_path / TRANSCRIPT_FILE, run / "states" / "p1", None, None)
    # Of the same name, but made by another server.
    text = faults(verified(noised / TRANSCRIPT_FILE, run / "states" / "p1", None, None))
    assert "client 'p1', round 1: transcript: got the head" in text


def test_a_roster_that_lacks_a_signature_is_named(run: Path, tmp_path: Path) -> None:
    lines, owner = read_chain((run / TRANSCRIPT_FILE).read_bytes()), run / "keys" / OWNER_FILE
    path, at = tmp_path / TRANSCRIPT_FILE, own_leaf(lines[2], "p3")
    signed = lines[3].people[own_leaf(lines[3], "p3")][2]
    found = []
    for own in ([*lines[2].people[at][:2], signed], None):
        people = {key: one for key, one in lines[2].people.items() if key != at}
        people |= {} if own is None else {at: own}
        changed = [*lines[:2], replace(lines[2], people=people), *lines[3:]]
        path.write_bytes(b"".join(line.written() for line in changed))
        # The chain does not change.
        assert not faults(verified(path, run / "states" / "p1", None, None))
        public = owner.with_suffix(".pub")
        found.append(faults(verified(path, run / "states" / "p1", public, None)))
    assert "round 1, keys: got what 'p3' did not sign" in found[0]
    assert "round 1, people: got somebody without a name" in found[1]
    with refused(RunError, got="no --state"):
        verified(path, None, owner.with_suffix(".pub"), None)


@pytest.mark.parametrize(
    ("kind", "change", "named"),
    [
        (PROMISE, {"noise": {"dp-noise": 0.1, "dp-clip": 0.2}}, "round 2, client 'p1': noise"),
        (PROMISE, None, "round 2, client 'p1': noise: got none promised"),
        (NOISE, None, "round 2, noise: got no entry"),
        (NOISE, {"draws": [{"seed": "0" * 64, "draws": [[3, 0.1]]}]}, "got a deviation of 0.1"),
        (NOISE, {"draws": [{"seed": "0" * 64, "draws": [[3, 0.2]]}]}, "'p1': noise: got 3 numbers"),
        (PROMISE, {"noise": {"dp-noise": 1.0}}, "round 2, client 'p1': noise"),
    ],
)
def test_noise_that_lacks_is_found(
    noised: Path, tmp_path: Path, kind: str, change: dict[str, Any] | None, named: str
) -> None:
    def without(lines: list[Line]) -> list[Line]:
        at = max(place for place, line in enumerate(lines) if line.kind == kind)
        found = [] if change is None else [other(lines[at], **change)]
        return linked(lines[:at] + found + lines[at + 1 :])

    assert named in found_in(noised, tmp_path, without)


def test_another_promise_later_is_found(noised: Path, tmp_path: Path) -> None:
    def twice(lines: list[Line]) -> list[Line]:
        again = next(line for line in lines if line.kind == PROMISE)
        return linked([*lines, other(again, secret="0" * 64)])

    assert "another promise" in found_in(noised, tmp_path, twice)


# Two heads.


class Forked(Devices):
    """Devices of which one is shown another head."""

    def answers(self, messages: Any) -> Iterator[Message]:
        """Change what comes to the first device."""
        for message in messages:
            asked = message.content.config_records.get(SECURE)
            if asked is not None and "head" in asked and message.metadata.dst_node_id == 1:
                message.content[SECURE] = ConfigRecord({**asked, "head": bytes(32)})
            yield from super().answers([message])


def test_a_sum_whose_people_were_shown_two_heads_is_not_opened(tmp_path: Path) -> None:
    write_federation(tmp_path / "data", people())
    data = str(tmp_path / "data")
    config = RunConfig(method="fedavg", beside="", data=data, **SUMS | {"rounds": 1})
    grid = Forked(config, 4, **{"state-dir": str(tmp_path / "states")})
    server = Server(config, grid, transcript=tmp_path / TRANSCRIPT_FILE)
    assert server.metric("secure_lost") == {1: 1}
    found = {c: verified(tmp_path / TRANSCRIPT_FILE, tmp_path / "states" / c, None, None)
             for c in ("p1", "p2")}  # fmt: skip
    assert "client 'p1', round 1: transcript: got the head 0000" in faults(found["p1"])
    assert not faults(found["p2"]) and "1 sums were not opened" in found["p2"][-1].text


# Sums that differ by few, of a server that was restored from a backup.


def repeated(
    tmp_path: Path, but: list[tuple[str, ...]], once: str = "", people: int = 7
) -> list[Line]:
    """Return the transcript of sums of one round, in each of which some are missing."""
    path = tmp_path / TRANSCRIPT_FILE
    for seed, missing in enumerate(but):
        one = Sum(people, seed=seed, round=1)
        one.server.once = once
        one.keys(missing)
        one.shares()
        one.vectors()
        SumTranscript(path, "run", "fedavg").add(one.server, one.unmask())
    return read_chain(path.read_bytes())


@pytest.mark.parametrize("once", ["", "statistics"])
def test_sums_that_differ_by_few_people_are_named(tmp_path: Path, once: str) -> None:
    lines = repeated(tmp_path, [(), ("p001",), ("p001", "p002", "p003")], once)
    text = faults(list(check_differences(lines)))
    assert "differs by 1 (p001)" in text and "differs by 2 (p002, p003)" in text
    assert text.count("\n") == 1
    # Somebody demands more people.
    assert "differs by 3" in faults(list(check_differences(lines, least=4)))
    assert not faults(list(check_thresholds(lines)))


def test_a_sum_that_a_device_helped_to_open_counts_as_opened(tmp_path: Path) -> None:
    lines = repeated(tmp_path, [(), ("p001",)])
    lines = linked([*lines[:-1], other(lines[-1], sum="")])
    assert not faults(list(check_differences(lines)))
    assert "differs by 1" in faults(list(check_differences(lines, 0, [lines[-1].session])))


def test_who_has_no_name_hides_no_difference(tmp_path: Path) -> None:
    lines = repeated(tmp_path, [(), ("p001",)])
    nameless = [replace(line, people={}) for line in lines]
    assert "differs by 1" in faults(list(check_differences(nameless)))


def test_sums_of_the_same_people_or_of_many_others_are_no_fault(tmp_path: Path) -> None:
    lines = repeated(tmp_path, [(), (), ("p001", "p002", "p003")])
    assert not faults(list(check_differences(lines)))


# Simulations, and what the command says.


def test_a_simulations_transcript_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    keys: dict[str, Any] = SUMS | {"standardise": "federation"}
    for rounds in (2, 3):
        config = RunConfig(method="fedavg", beside="", **keys | {"rounds": rounds})
        train_method(config, "fedavg", people(), tmp_path, lambda round: None)
    path = tmp_path / TRANSCRIPT_FILE
    assert not faults(verified(path, None, None, tmp_path / "transcript.key"))
    sums = [line for line in read_chain(path.read_bytes()) if line.kind == SUM]
    assert [line.round for line in sums] == [0, 1, 2, 3]


def test_the_command_says_what_is_wrong(run: Path, tmp_path: Path) -> None:
    path = tmp_path / TRANSCRIPT_FILE
    path.write_bytes((run / TRANSCRIPT_FILE).read_bytes().replace(b'"least":3', b'"least":2', 1))
    done = CliRunner().invoke(cli, ["deploy", "verify", str(path)])
    assert done.exit_code == 1 and done.output.startswith("WRONG: chain: ")
    path.write_bytes(b'{"entry": {"kind": "\\u001b[2J\\ud800"}}\n')
    done = CliRunner().invoke(cli, ["deploy", "verify", str(path)])
    assert done.exit_code == 1 and "\x1b" not in done.output
    start = read_chain((run / TRANSCRIPT_FILE).read_bytes())[0]
    path.write_bytes(other(start, method="\x1b[2J\ud800").written())
    done = CliRunner().invoke(cli, ["deploy", "verify", str(path)])
    assert done.exit_code == 0 and "\x1b" not in done.output
    with refused(RunError, got=["p1", "p2"], expected="one person"):
        verified(run / TRANSCRIPT_FILE, run / "states", None, None)


def test_receipts_that_were_not_written_whole_are_said(run: Path, tmp_path: Path) -> None:
    kept = next((run / "states" / "p1").glob(f"{PREFIX}*{ENDING}"))
    own = tmp_path / "p1" / kept.name
    own.parent.mkdir()
    own.write_bytes(kept.read_bytes() + b'{"client": "p1", "run"')
    found = verified(run / TRANSCRIPT_FILE, tmp_path, None, None)
    assert not faults(found) and found[-1].text.startswith("receipts: 1 lines are damaged")
    own.write_bytes(b"\n")
    with refused(RunError, str(own)):
        verified(run / TRANSCRIPT_FILE, tmp_path, None, None)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return a run's transcript of two files, and the state of p1, which verified the first."""
    config, grid = run_of(tmp_path, rounds=2)
    path, state = tmp_path / TRANSCRIPT_FILE, tmp_path / "states" / "p1"
    assert not faults(verified(path, state, None, None))
    limit = path.stat().st_size - 1
    monkeypatch.setattr("strategies.protections.sum_transcript.FILE_BYTES", limit)
    Server(config, grid, "a run", path)
    assert len(older_files(path)) == 1
    return path, state


def test_a_device_that_verified_older_files_needs_the_newest_alone(
    parts: tuple[Path, Path],
) -> None:
    path, state = parts
    (older,) = older_files(path)
    kept = older.read_bytes()
    older.unlink()
    found = verified(path, state, None, None)
    text = [one.text for one in found]
    assert not faults(found) and "verified before" in text[1]
    newer = len(read_chain(path.read_bytes())) - 1
    assert f"{newer} vectors were counted" in text[-1]
    # Who never looked, and who has no state, wants all of them.
    for other_one in (state.with_name("p2"), None):
        assert "nothing verified" in faults(verified(path, other_one, None, None))
    older.write_bytes(kept)
    for other_one in (state, state.with_name("p2"), None):
        assert not faults(verified(path, other_one, None, None))


def test_a_process_that_never_ends_writes_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strategies.protections.sum_transcript.FILE_BYTES", 1000)
    run_of(tmp_path, rounds=4)
    path, state = tmp_path / TRANSCRIPT_FILE, tmp_path / "states" / "p1"
    assert len(older_files(path)) >= 3
    assert not faults(verified(path, state, None, None))
    # A file between is missing: who never looked finds it.
    older_files(path)[1].unlink()
    assert faults(verified(path, state, None, None))


def test_a_file_that_does_not_go_on_from_what_was_verified_is_found(
    parts: tuple[Path, Path],
) -> None:
    path, state = parts
    (older,) = older_files(path)
    lines = read_chain(older.read_bytes() + path.read_bytes())
    kept = older.read_bytes(), path.read_bytes()
    first = len(read_chain(kept[0]))

    def found(older_lines: list[Line], newest: list[Line]) -> str:
        older.unlink(missing_ok=True)
        if older_lines:
            older.write_bytes(b"".join(line.written() for line in older_lines))
        path.write_bytes(b"".join(line.written() for line in newest))
        return faults(verified(path, state, None, None))

    # The newest alone, behind another past.
    elsewhere = [other(lines[first], before="0" * 64)]
    elsewhere += linked_from(elsewhere, lines[first + 1 :])
    assert "files: got none with the head" in found([], elsewhere)
    # Behind the true past, but of other sums.
    changed = [other(line, least=2) if line.kind == SUM else line for line in lines[first:]]
    assert "client 'p1'" in found([], linked_from(lines[:first], changed))
    # Cut off: the sums since it looked.
    assert "round 2: transcript: got" in found(lines[:first], lines[first : first + 1])
    # The older one is cut, and the newer goes on from what is left.
    assert "files: got none with the head" in found(
        lines[: first - 1], linked_from(lines[: first - 1], lines[first:])
    )
    older.write_bytes(kept[0])
    path.write_bytes(kept[1])
    assert not faults(verified(path, state, None, None))


def linked_from(before: list[Line], lines: list[Line]) -> list[Line]:
    found = list[Line]()
    for line in lines:
        found.append(other(line, before=[*before, *found][-1].hash))
    return found
