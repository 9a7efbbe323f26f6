"""Golden messages: this release's device answers them as they stand in the files."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing import golden, golden_values
from fedsub.testing.golden_refused import WRONG, refusal_of, wrong
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.federation import write_federation
from fedsub_core.data.sources import load_client
from fedsub_core.secure.messages import KEYS, SECURE, SHARES
from fedsub_core.wire import exchange
from fedsub_core.wire.v2 import exchange_pb2 as pb

#: Where an upload stands: alone, joined with other records, and kept.
UPLOADS = (exchange.PAYLOAD, f"{exchange.PAYLOAD}: base64", "reply")


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden.FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def assert_alike(found: object, expected: object, what: str) -> None:
    """Compare plain values: floats up to rounding, all else exactly."""
    if isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6), what
    elif isinstance(expected, Mapping):
        assert isinstance(found, Mapping) and found.keys() == expected.keys(), what
        if "dtype" in expected:
            mine, theirs = golden_values.array_of(found), golden_values.array_of(expected)
            assert mine.dtype == theirs.dtype, what
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5, err_msg=what)
            return
        for key, value in expected.items():
            assert_alike(found[key], value, f"{what}: {key}")
    elif isinstance(expected, str) and found != expected and what.endswith(UPLOADS):
        assert_same_bundle(found, expected, what)
    else:
        assert found == expected, what


def assert_same_bundle(found: object, expected: str, what: str) -> None:
    """Compare uploads: trained numbers may differ in their last digits on another processor.

    Of rounded numbers and differences, whose digits say little, only how many there are.
    """
    mine, theirs = (pb.Bundle.FromString(base64.b64decode(str(t))) for t in (found, expected))
    plainly = mine.numbers == pb.FLOAT32 and not mine.differences
    for ours, other in zip(mine.tensors, theirs.tensors, strict=True):
        one, two = (
            np.frombuffer(tensor.values, "<f4" if plainly else "u1") for tensor in (ours, other)
        )
        if plainly:
            np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5, err_msg=what)
        assert one.size == two.size and len(ours.scales) == len(other.scales), what
        other.values, other.scales = ours.values, ours.scales
    assert mine == theirs, what


def test_each_case_has_a_file_and_no_other() -> None:
    assert {path.stem for path in golden.FOLDER.glob("*.json")} == golden.CASES.keys()


@pytest.mark.parametrize("name", golden.CASES)
def test_a_device_answers_as_the_file_says(name: str, tmp_path: Path) -> None:
    case, folder = read(name), tmp_path / "data"
    people = golden.federation(golden.windows_in(name))
    write_federation(folder, people)
    assert (folder / "federation.toml").read_text("utf-8") == case["card"]
    card, person = load_client(str(folder), golden.PERSON)
    for own, written in ((person.x, case["person"]["x"]), (person.y, case["person"]["y"])):
        np.testing.assert_array_equal(own, golden_values.array_of(written))
    config = from_flat({**case["config"], "data": str(folder)})
    for number, one in enumerate(case["exchanges"]):
        what = f"{name}, message {number}, {one['type']}"
        context = golden.device_of(
            config, golden.PERSON, golden_values.state_of(one["before"], card, person)
        )
        told = golden_values.records_of(one["in"])
        out = golden_values.plain(golden.answered(one["type"], told, context))
        if one["in"].get(SECURE, {}).get("phase") in (KEYS, SHARES):
            # Secrets are drawn.
            assert out[SECURE].keys() == one["out"][SECURE].keys(), what
            continue
        assert_alike(out, one["out"], what)
        after = golden_values.kept(context.state)
        for memory in (after, one["after"]):
            for opened in memory.get("opened", {}).get("sums", ()):
                del opened["date"]
        assert_alike(after, one["after"], what)


def test_each_case_of_wrong_messages_has_a_file_and_no_other() -> None:
    files = {path.stem for path in (golden.FOLDER / golden.REFUSED).glob("*.json")}
    assert files == WRONG.keys() <= golden.CASES.keys()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_message_is_refused_as_the_file_says_and_changes_nothing(name: str) -> None:
    case, file = read(name), read(f"{golden.REFUSED}/{name}")
    assert [(one["exchange"], one["name"], one["in"]) for one in file["messages"]] == list(
        wrong(case)
    )
    for one in file["messages"]:
        number = one["exchange"]
        with golden.device_before(case, number) as context:
            before = golden_values.kept(context.state)
            found = refusal_of(case["exchanges"][number]["type"], one["in"], context)
            assert found is not None and found == one["refused"], one["name"]
            assert golden_values.kept(context.state) == before, one["name"]


def test_a_file_that_was_changed_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = read("fedavg")
    upload = next(one for one in case["exchanges"] if one["type"] == "train")
    report = upload["after"]["tensors"]
    name, tensor = next(iter(report.items()))
    report[name] = golden_values.array(golden_values.array_of(tensor) + np.float32(0.01))
    (tmp_path / "fedavg.json").write_text(json.dumps(case))
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match=name):
        test_a_device_answers_as_the_file_says("fedavg", tmp_path)
