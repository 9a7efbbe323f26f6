"""The federation format: what is read, what is written, and every refusal."""

import os
import pickle
import re
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.data import federation
from fedsub_core.data.federation import (
    Card,
    ClientData,
    Federation,
    read_card,
    read_client,
    read_federation,
    read_outlines,
    write_federation,
)
from fedsub_core.data.fingerprint import card_digest
from fedsub_core.data.sources import client_ids
from fedsub_core.errors import DataError

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"), "m", window_s=2.0, overlap=0.5)
CARD_TOML = """\
name = "toy"
task = "test"
classes = ["a", "b", "c"]
features = ["u", "v"]
"""


def arrays(n: int = 6, **replaced: Any) -> dict[str, Any]:
    given = {
        "x": np.arange(n * 2, dtype=np.float32).reshape(n, 2),
        "y": np.arange(n) % 3,
        "t": np.arange(n, dtype=np.float64),
    } | replaced
    return {name: value for name, value in given.items() if value is not None}


def folder(path: Path, card: str = CARD_TOML, /, **clients: Mapping[str, Any]) -> Path:
    (path / "clients").mkdir(parents=True)
    (path / "federation.toml").write_text(card)
    for name, content in clients.items():
        np.savez(path / "clients" / f"{name}.npz", **content)
    return path


def real(name: str) -> Path:
    default = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    path = Path(os.environ.get("FEDSUB_DATA", default)) / name
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set FEDSUB_DATA to the folder that holds {name}")
    return path


def test_reads_types_shapes_and_order(tmp_path: Path) -> None:
    x = np.arange(12).reshape(6, 2)
    read = read_federation(folder(tmp_path / "f", b2=arrays(x=x), a1=arrays(t=None)))
    assert list(read.clients) == ["a1", "b2"]
    b2 = read.clients["b2"]
    assert (b2.x.dtype, b2.y.dtype) == (np.float32, np.int64)
    assert b2.t is not None and b2.t.dtype == np.float64
    assert read.clients["a1"].t is None
    np.testing.assert_array_equal(b2.x, x)
    assert read.card == Card("toy", "test", ("a", "b", "c"), ("u", "v"))
    assert read.card.overlap == 0.0


def test_an_unknown_overlap_is_written_so(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 3
    card = replace(CARD, overlap=None)
    write_federation(tmp_path / "f", Federation(card, {"a": ClientData("a", x, y)}))
    assert 'overlap = "unknown"' in (tmp_path / "f" / "federation.toml").read_text("utf-8")
    assert read_federation(tmp_path / "f").card == card


@pytest.mark.parametrize("shape", [(5, 2), (5, 2, 7)])
def test_write_then_read_gives_the_same(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = np.array([0, 1, 2, 0, 1])
    clients = {"q": ClientData("q", x, y, np.arange(5.0)), "p": ClientData("p", -x, y)}
    written = Federation(CARD, clients)
    write_federation(tmp_path / "deep" / "f", written)
    read = read_federation(tmp_path / "deep" / "f")
    assert read.card == CARD
    assert list(read.clients) == ["p", "q"]
    for name, data in read.clients.items():
        np.testing.assert_array_equal(data.x, clients[name].x)
        np.testing.assert_array_equal(data.y, y)
    assert read.clients["p"].t is None
    np.testing.assert_array_equal(read.clients["q"].t, np.arange(5.0))


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = ClientData("a", np.ones((2, 2), np.float32), np.array([0, 1]))

    def broken(*args: object, **kwargs: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(federation, "write_npz", broken)
    with pytest.raises(DataError, match=r"disk full.*nothing of it was kept"):
        write_federation(tmp_path / "f", Federation(CARD, {"a": good}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("card", "clients", "expected"),
    [
        (CARD, {}, "no client"),
        (CARD, {"../a": (2, 2)}, "client id"),
        (CARD, {"a": (2, 3)}, "[n, 2]"),
        (CARD, {"a": (2, 2), "b": (2, 2, 4)}, "one shape"),
        (Card("toy", "test", ("a", "b"), ("u", "v"), overlap=1.0), {"a": (2, 2)}, "overlap"),
    ],
)
def test_writing_what_could_not_be_read_is_refused(
    tmp_path: Path, card: Card, clients: dict[str, tuple[int, ...]], expected: str
) -> None:
    labels = np.array([0, 1])
    data = {n: ClientData(n, np.ones(s, np.float32), labels) for n, s in clients.items()}
    with pytest.raises(DataError, match=re.escape(expected)):
        write_federation(tmp_path / "f", Federation(card, data))
    assert list(tmp_path.iterdir()) == []


def test_writing_over_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("kept")
    data = ClientData("a", np.ones((2, 2), np.float32), np.array([0, 1]))
    with pytest.raises(DataError, match="already holds something"):
        write_federation(tmp_path, Federation(CARD, {"a": data}))
    assert [p.name for p in tmp_path.iterdir()] == ["note"]
    (tmp_path / "empty").mkdir()
    write_federation(tmp_path / "empty", Federation(CARD, {"a": data}))
    assert list(read_federation(tmp_path / "empty").clients) == ["a"]


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        read_federation(tmp_path / "absent")
    (tmp_path / "f").mkdir()
    with pytest.raises(DataError, match=r"federation\.toml: no such file"):
        read_federation(tmp_path / "f")
    (tmp_path / "f" / "federation.toml").write_text(CARD_TOML)
    with pytest.raises(DataError, match="no client"):
        read_federation(tmp_path / "f")
    (tmp_path / "f" / "clients").mkdir()
    with pytest.raises(DataError, match="no client"):
        read_federation(tmp_path / "f")
    with pytest.raises(DataError, match="no such file"):
        read_client(tmp_path / "f" / "clients" / "01.npz", CARD)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = ", "cannot be read as TOML"),
        (CARD_TOML.replace("task", "# task"), "'task' is missing"),
        (CARD_TOML.replace('["a", "b", "c"]', '["a"]'), "classes"),
        (CARD_TOML.replace('["a", "b", "c"]', '["a", "a"]'), "none of them twice"),
        (CARD_TOML.replace('["a", "b", "c"]', r'["a", "b\u001b[2J"]'), r"got 'b\x1b[2J', expected"),
        (CARD_TOML.replace('["a", "b", "c"]', r'["a", "b\u202e"]'), r"got 'b\u202e', expected"),
        (CARD_TOML.replace('["u", "v"]', "[1, 2]"), "features"),
        (CARD_TOML.replace('["u", "v"]', "[]"), "features"),
        (CARD_TOML.replace('"toy"', "3"), "name: got 3"),
        (CARD_TOML + "overlpa = 0.5", "Did you mean 'overlap'"),
        (CARD_TOML + "overlap = 1.0", "from 0 to below 1"),
        (CARD_TOML + "overlap = nan", "overlap"),
        (CARD_TOML + "overlap = true", "overlap"),
        (CARD_TOML + 'overlap = "none"', "expected a share of the window, or 'unknown'"),
        (CARD_TOML + 'sample = "image"\noverlap = "unknown"', "for samples of kind 'image'"),
        (CARD_TOML + "window_s = -1", "window_s: got -1"),
        (CARD_TOML + 'window_s = "2"', "window_s"),
        (CARD_TOML + f"window_s = 1{'0' * 400}", "window_s"),
        (CARD_TOML + "sampling_rate_hz = 0", "above 0"),
        (CARD_TOML + "time_ordered = 1", "true or false"),
        (CARD_TOML + 'meanings = ["one"]', "a list of 3 texts, one for each class"),
        (CARD_TOML + 'meanings = ["one", "", "three"]', "meanings: got '', expected text"),
        (CARD_TOML + "units = 1", "units"),
    ],
)
def test_bad_cards_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = folder(tmp_path / "f", text)
    with pytest.raises(DataError, match=re.escape(expected)) as error:
        read_card(path)
    assert str(path / "federation.toml") in str(error.value)


WITH_NAN = np.ones((6, 2), np.float32)
WITH_NAN[4, 1] = np.nan
RAW_WITH_INF = np.ones((6, 2, 3), np.float32)
RAW_WITH_INF[2, 0, 1] = -np.inf


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (arrays(x=None), "array 'x' is missing"),
        (arrays(y=None), "array 'y' is missing"),
        (arrays(y=np.zeros(5, int)), "got 5 labels, expected 6"),
        (arrays(t=np.zeros(7)), "t: got float64 (7,), expected seconds [6]"),
        (arrays(t=np.array([0, 1, 2, np.nan, 4, 5])), "t, row 3: got nan"),
        (arrays(t=np.array(["now"] * 6)), "t: got <U3"),
        (arrays(x=np.full((6, 2), "1")), "x: got <U1"),
        (arrays(x=np.ones((6, 2), bool)), "x: got bool"),
        (arrays(x=np.ones((6, 2), complex)), "x: got complex128"),
        (arrays(x=np.full((6, 2), 1e300)), "got 1e+300, expected a finite number of 1e+15 at most"),
        (arrays(y=np.zeros(6)), "y: got float64"),
        (arrays(y=np.zeros((6, 1), int)), "y: got int64 (6, 1)"),
        (arrays(x=WITH_NAN), "client 'c1': x, row 4, feature 1 ('v'): got nan"),
        (arrays(x=RAW_WITH_INF), "client 'c1': x, row 2, feature 0 ('u'): got -inf"),
        (arrays(y=np.array([0, 1, 2, 3, 1, 0])), "y, row 3: got label 3, expected 0 to 2"),
        (arrays(y=np.array([0, -1, 2, 1, 1, 0])), "y, row 1: got label -1"),
        (arrays(y=np.full(6, 2**64 - 1, np.uint64)), "got label 18446744073709551615"),
        (arrays(x=np.ones((6, 3), np.float32)), "expected [n, 2]"),
        (arrays(x=np.ones((6, 7, 2), np.float32)), "Check the order of axes"),
        (arrays(x=np.ones((6, 2, 0), np.float32)), "shape (6, 2, 0)"),
        (arrays(x=np.ones(6, np.float32)), "shape (6,)"),
        (arrays(x=np.float32(1)), "shape ()"),
        (arrays(n=0), "no sample"),
    ],
)
def test_bad_clients_are_refused(tmp_path: Path, content: dict[str, Any], expected: str) -> None:
    path = folder(tmp_path / "f", c1=content)
    with pytest.raises(DataError, match=re.escape(expected)) as error:
        read_federation(path)
    assert str(path / "clients" / "c1.npz") in str(error.value)


def test_meanings_explain_classes_and_are_no_part_of_what_data_are(tmp_path: Path) -> None:
    explained = replace(CARD, meanings=("one", "two", "three"))
    assert explained.explained == "a is one, b is two, c is three" and CARD.explained == ""
    assert card_digest(explained) == card_digest(CARD)
    data = ClientData("a1", **arrays(t=None))
    write_federation(tmp_path / "f", Federation(explained, {"a1": data}))
    assert read_card(tmp_path / "f") == explained


@pytest.mark.parametrize("name", ["a b", "ü", "-a", "..", "a;b", "_a", "a\nb"])
def test_odd_client_ids_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="client id"):
        read_federation(folder(tmp_path / "f", CARD_TOML, **{name: arrays()}))


@pytest.mark.parametrize("name", ["01", "S10", "a.b-c_d", "7.5"])
def test_plain_client_ids_are_taken(tmp_path: Path, name: str) -> None:
    assert list(read_federation(folder(tmp_path / "f", CARD_TOML, **{name: arrays()})).clients) == [
        name
    ]


def test_all_files_that_cannot_be_used_are_named_together(tmp_path: Path) -> None:
    """A glitch that float32 holds, and whose square it does not, is none of the moments'."""
    glitch = np.ones((6, 2))
    glitch[3, 1] = 3e38
    bad = {f"c{i:02}": arrays(x=glitch * (-1) ** i) for i in range(22)}
    path = folder(tmp_path / "f", CARD_TOML, a=arrays(), d=arrays(x=WITH_NAN), **bad)
    with pytest.raises(DataError) as error:
        read_federation(path)
    said = str(error.value)
    assert said.startswith(f"{path}: 23 of 24 clients' files cannot be used. {path}")
    assert said.endswith(" Also refused: c20.npz, c21.npz, d.npz.") and said.count(".npz: ") == 20
    for i in range(20):
        assert f"c{i:02}.npz: client 'c{i:02}': x, row 3, feature 1 ('v'): got " in said
    assert said.count("got 3e+38, expected a finite number of 1e+15 at most") == 10
    assert said.count("got -3e+38, expected") == 10


def test_outlines_need_the_samples_of_one_client_at_a_time(tmp_path: Path) -> None:
    place = folder(tmp_path, **{f"c{i}": arrays(6 + i) for i in range(4)})
    whole = read_federation(place)
    before: list[weakref.ref[Any]] = []

    def see(data: ClientData, card: Card) -> None:
        assert card == whole.card
        np.testing.assert_array_equal(data.x, whole.clients[data.client].x)
        assert all(one() is None for one in before)
        before.append(weakref.ref(data.x))

    outlines = read_outlines(place, see)
    assert len(before) == 4 and list(outlines.clients) == list(whole.clients)
    for one, other in zip(outlines.clients.values(), whole.clients.values(), strict=True):
        assert one.x.shape == other.x.shape and not one.x.any()
        np.testing.assert_array_equal(one.y, other.y)
        np.testing.assert_array_equal(one.t, other.t)


def test_outlines_are_refused_where_a_federation_is(tmp_path: Path) -> None:
    for number, clients in enumerate(
        [
            {"a": arrays(), "b": arrays(x=None), "c": arrays(y=None)},
            {"a": arrays(), "b": arrays(x=np.zeros((6, 2, 4), np.float32))},
            {},
        ]
    ):
        place = folder(tmp_path / str(number), **clients)
        with pytest.raises(DataError) as whole:
            read_federation(place)
        with pytest.raises(DataError) as outlines:
            read_outlines(place, lambda data, card: None)
        assert str(outlines.value) == str(whole.value)


def test_what_lies_beside_clients_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = folder(tmp_path / "f", p0=arrays())
    clients = path / "clients"
    (clients / "._p0.npz").write_bytes(b"macOS's")
    (clients / ".DS_Store").touch()
    (clients / "p1.csv").touch()
    assert list(read_federation(path).clients) == ["p0"] == client_ids(str(path))
    assert "not read: p1.csv; clients are <id>.npz" in caplog.text
    assert "macOS" not in caplog.text and ".DS_Store" not in caplog.text
    np.savez(clients / "p9.npz", **arrays())
    (clients / "p9.npz").rename(clients / "p9.NPZ")
    with refused(DataError, got="p9.NPZ", expected=".npz"):
        read_federation(path)


def test_arrays_of_other_names_are_named(tmp_path: Path) -> None:
    given = arrays()
    path = folder(tmp_path / "f", c={"X": given["x"], "Y": given["y"]})
    expected = "'x' is missing: got arrays X, Y, expected x, y and optionally t and since. Rename X"
    with pytest.raises(DataError, match=expected):
        read_federation(path)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """Windows' editors put it first."""
    path = folder(tmp_path / "f", "\ufeff" + CARD_TOML, p0=arrays())
    assert read_federation(path).card.name == "toy"
    (tmp_path / "run.toml").write_text("\ufeffrounds = 3\n", "utf-8")
    assert read_config(tmp_path / "run.toml").rounds == 3


def test_clients_of_different_shapes_are_refused(tmp_path: Path) -> None:
    windows = {n: arrays(x=np.ones((6, 2, w), np.float32)) for n, w in (("a", 8), ("b", 9))}
    with refused(DataError, "client 'b'", "(2, 9)", "client 'a'", "(2, 8)"):
        read_federation(folder(tmp_path / "f", CARD_TOML, **windows))


def test_no_python_object_is_loaded(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", c1=arrays(y=np.array([0, 1, "x", None, 2, 1], object)))
    with pytest.raises(DataError, match="Python objects"):
        read_federation(path)
    (path / "clients" / "c1.npz").write_bytes(pickle.dumps({"x": 1}))
    with pytest.raises(DataError, match=r"c1\.npz: cannot be read"):
        read_federation(path)
    np.save(path / "clients" / "c1.npz.npy", np.ones(3))
    os.replace(path / "clients" / "c1.npz.npy", path / "clients" / "c1.npz")
    with pytest.raises(DataError, match=r"c1\.npz: cannot be read"):
        read_federation(path)


def test_a_file_that_may_not_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = folder(tmp_path / "f", c1=arrays()) / "clients" / "c1.npz"
    monkeypatch.setattr("fedsub_core.data.client_file.read_npz", locked)
    with refused(DataError, "c1.npz", "Permission denied"):
        read_client(path, CARD)


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", c1=arrays()) / "clients" / "c1.npz"
    whole = path.read_bytes()
    for end in range(0, len(whole), 17):
        path.write_bytes(whole[:end])
        with pytest.raises(DataError, match=r"c1\.npz: cannot be read"):
            read_client(path, CARD)


def test_a_flipped_byte_is_refused_or_harmless(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", c1=arrays()) / "clients" / "c1.npz"
    whole = bytearray(path.read_bytes())
    intact = read_client(path, CARD)
    refused = 0
    for i in range(0, len(whole), 7):
        damaged = whole.copy()
        damaged[i] ^= 0xFF
        path.write_bytes(damaged)
        try:
            data = read_client(path, CARD)
        except DataError:
            refused += 1
        else:
            np.testing.assert_array_equal(data.x, intact.x)
            np.testing.assert_array_equal(data.y, intact.y)
    assert refused > len(whole) / 7 / 2


def test_wisdm(tmp_path: Path) -> None:
    wisdm = read_federation(real("wisdm"))
    assert len(wisdm.clients) == 36
    assert sum(len(data.y) for data in wisdm.clients.values()) == 43_752
    assert wisdm.card.classes[:2] == ("Walking", "Jogging")
    assert all(data.t is None and data.x.shape[1:] == (3,) for data in wisdm.clients.values())
    one = Federation(wisdm.card, {"01": wisdm.clients["01"]})
    write_federation(tmp_path / "copy", one)
    copy = read_federation(tmp_path / "copy")
    assert copy.card == wisdm.card
    np.testing.assert_array_equal(copy.clients["01"].x, wisdm.clients["01"].x)


def test_wesad() -> None:
    wesad = read_federation(real("wesad"))
    assert (wesad.card.overlap, wesad.card.window_s, wesad.card.time_ordered) == (0.0, 60.0, True)
    assert sum(len(data.y) for data in wesad.clients.values()) == 8_991
    assert all(data.t is not None for data in wesad.clients.values())


def test_raw_windows_of_uci_har() -> None:
    path = real("uci-har")
    card = read_card(path)
    data = read_client(path / "clients" / "01.npz", card)
    assert data.x.shape == (347, 9, 128)
    assert data.x.dtype == np.float32


def test_the_round_from_which_a_sample_exists_is_kept_and_checked(tmp_path: Path) -> None:
    x, y = np.ones((3, 2), np.float32), np.array([0, 1, 0])
    late = ClientData("a", x, y, None, np.array([0, 51, 101]))
    write_federation(tmp_path / "f", Federation(CARD, {"a": late}), {"note.txt": "hello"})
    since = read_federation(tmp_path / "f").clients["a"].since
    assert since is not None and since.tolist() == [0, 51, 101]
    assert (tmp_path / "f" / "note.txt").read_text() == "hello"
    for wrong, expected in (
        (np.array([0, -1, 0]), r"since, row 1: got -1"),
        (np.array([0, 1]), r"whole numbers \[3\]"),
        (np.array([0.0, 1, 2]), "whole numbers"),
        (np.array([2, 2, 2]), "some sample from round 1 on"),
    ):
        path = tmp_path / "f" / "clients" / "a.npz"
        np.savez(path, x=x, y=y, since=wrong)
        with pytest.raises(DataError, match=expected):
            read_client(path, CARD)
