"""Columns that give class or person away are left out and named, unless they are asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub_core.data.federation import read_federation
from fedsub_core.errors import DataError
from fedsub_data.importing.array_files import array_files
from fedsub_data.importing.arrays import from_columns
from fedsub_data.importing.files import NUMPY
from fedsub_data.importing.giveaways import Giveaways
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import NarrowedSource, Source

from .made_tables import imported, written

CLASSES = np.array(["rest", "tack", "row"])
#: Trials of four people, 40 rows each: everybody rests, tacks and rows twice, in this order.
TRIALS, ROWS = 6, 40
NOTES = [
    "Left out, as they have one value in all rows of a person: 'age'.",
    "Left out, as they tell the classes of other people's rows: 'trial'.",
    "To keep them: --features rx,age,trial.",
]


def frame(people: int = 4, **more: Callable[[pd.DataFrame, np.random.Generator], Any]) -> Any:
    """Return signals that show nothing, and columns made of person, trial and class."""
    rng = np.random.default_rng(7)
    trial = np.tile(np.repeat(np.arange(TRIALS), ROWS), people)
    made = pd.DataFrame(
        {
            "user": np.repeat([f"p{i}" for i in range(people)], TRIALS * ROWS),
            "activity": CLASSES[trial % 3],
            "rx": rng.normal(size=len(trial)).round(3),
        }
    )
    made["number"], made["of_trial"] = made.user.str[1:].astype(int), trial
    for name, make in more.items():
        made[name] = make(made, rng)
    return made.drop(columns=["number", "of_trial"])


def boats() -> pd.DataFrame:
    """Return a table with everybody's age and the number of the trial."""
    return frame(age=lambda t, _: 30 + t.number % 3, trial=lambda t, _: t.of_trial + 1)


def left_out(table: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that an import of a table leaves out."""
    made = fedsub.federation(table, window="none")
    return tuple(one for one in table.columns[2:] if one not in made.card.features)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_age_and_trial_are_named_and_left_out(tmp_path: Path, kind: str) -> None:
    table, path = boats(), tmp_path / f"boats.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "parquet":
        duckdb.from_df(table).write_parquet(str(path))
    else:
        text = {"user": "U8", "activity": "U8"}
        np.save(path, table.to_records(index=False, column_dtypes=text))
    made = imported(path, tmp_path / "out", rate=20.0)
    assert made.card.features == ("rx",) and "Guessed: --features rx." in made.notes
    assert [note for note in made.notes if note in NOTES] == NOTES
    kept = imported(path, tmp_path / "all", rate=20.0, features="rx,age,trial")
    assert kept.card.features == ("rx", "age", "trial") and NOTES[0] not in kept.notes
    one, other = (np.load(tmp_path / f"{at}/clients/p1.npz")["x"] for at in ("out", "all"))
    np.testing.assert_array_equal(one, other[:, :1])


def test_a_frame_and_arrays_are_looked_at_too() -> None:
    table = boats()
    assert left_out(table) == ("age", "trial")
    x = table[["rx", "age", "trial"]].to_numpy(np.float32)
    arrays = (x, table.activity.to_numpy(), table.user.to_numpy())
    assert fedsub.federation(arrays).card.features == ("x1",)
    named = fedsub.federation(arrays, features=["rx", "age", "trial"])
    assert named.card.features == ("rx", "age", "trial")


def test_windows_are_looked_at_too(tmp_path: Path) -> None:
    table, path = boats(), tmp_path / "windows.npz"
    rows = table[["rx", "age", "trial"]].to_numpy(np.float32).reshape(-1, 10, 3)
    who, y = (table[one].to_numpy(str)[::10] for one in ("user", "activity"))
    np.savez(path, windows=rows.transpose(0, 2, 1), y=y, subject=who)
    made = imported(path, tmp_path / "out")
    assert made.card.features == ("x1",) and "To keep them: --features windows." in made.notes
    kept = imported(path, tmp_path / "all", features="windows")
    assert kept.card.features == ("x1", "x2", "x3")


def test_rows_come_without_what_is_left_out() -> None:
    columns = {name: boats()[name].to_numpy() for name in boats()}
    source = from_columns({"boats": columns}, None, ImportOptions())
    giveaways = Giveaways(source, ImportOptions())
    for rows in source.rows():
        giveaways.add(rows)
    narrowed = giveaways.without("boats")
    assert isinstance(narrowed, NarrowedSource)
    either: Source = narrowed
    assert either.features == ("rx",) and either.people == source.people
    for before, after in zip(source.rows(), either.rows(), strict=True):
        np.testing.assert_array_equal(before.x[:, :1], after.x)
    assert "column 'rx'" in either.place(0, 3, "rx") and either.lost() == source.lost()


@pytest.mark.parametrize(
    "make",
    [
        lambda t, rng: t.number * 1.5 + 3,  # of a person
        lambda t, rng: np.where(t.of_trial % 3 == 1, 4, t.of_trial % 3),  # another code
        lambda t, rng: np.where(rng.random(len(t)) < 0.002, 2, t.of_trial % 3),  # with errors
        lambda t, rng: (t.of_trial % 3 > 0) * (1 + t.number),  # of each person's own, in time
        lambda t, rng: 8,
    ],
    ids=["person", "code", "errors", "phase", "constant"],
)
def test_codes_are_left_out(make: Callable[..., Any]) -> None:
    assert left_out(frame(code=make)) == ("code",)


@pytest.mark.parametrize(
    "make",
    [
        lambda t, rng: t.number * TRIALS + t.of_trial,  # trials that are counted over all people
        lambda t, rng: t.groupby(["user", "of_trial"]).rx.transform("std"),
    ],
    ids=["trial", "statistic"],
)
def test_each_trials_own_number_is_left_out_though_there_are_many(make: Callable[..., Any]) -> None:
    assert left_out(frame(10, of_all=make)) == ("of_all",)


def test_a_slow_sensor_of_many_values_is_a_feature() -> None:
    def slow(table: pd.DataFrame, rng: np.random.Generator) -> Any:
        return np.repeat(rng.normal(size=len(table) // 20), 20)

    assert left_out(frame(10, height=slow)) == ()


def test_columns_that_each_tell_one_class_are_left_out_together() -> None:
    """Rows are shuffled, so only the values can show it. One alone may be a sensor of postures."""

    def is_a(state: str) -> Callable[..., Any]:
        return lambda t, rng: (t.activity == state).astype(int)

    shuffled = {"frac": 1, "random_state": 1}
    several = frame(resting=is_a("rest"), tacking=is_a("tack")).sample(**shuffled)
    assert left_out(several) == ("resting", "tacking")
    assert left_out(frame(lying=is_a("rest")).sample(**shuffled)) == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda t, rng: (t.activity == "row") & (rng.random(len(t)) < 0.3),  # steps, strokes
        lambda t, rng: ((t.activity == "row") ^ (rng.random(len(t)) < 0.03)).astype(int),
        lambda t, rng: np.roll(t.of_trial % 3, 5),  # a sensor that is five rows late
        lambda t, rng: (rng.random(len(t)) < 0.001).astype(int),  # a knock now and then
        lambda t, rng: rng.normal(t.of_trial % 3, 0.2).round(1),
        lambda t, rng: np.arange(len(t)) // 55 % 7,  # a mode that changes on its own
    ],
    ids=["steps", "moving", "late", "knock", "rounded", "mode"],
)
def test_sensors_of_few_values_are_features(make: Callable[..., Any]) -> None:
    assert left_out(frame(sensor=lambda t, rng: np.asarray(make(t, rng)).astype(float))) == ()


def test_a_class_that_nearly_all_rows_have_makes_no_code() -> None:
    table = frame(bell=lambda t, rng: (rng.random(len(t)) < 0.1).astype(int))
    table["activity"] = np.where(np.random.default_rng(1).random(len(table)) < 0.004, "fall", "no")
    assert left_out(table) == ()


def test_a_note_on_many_columns_names_some() -> None:
    table = pd.concat([boats(), pd.DataFrame(np.zeros((960, 60))).add_prefix("dark")], axis=1)
    columns = {name: table[name].to_numpy() for name in table}
    source = from_columns({"boats": columns}, None, ImportOptions())
    giveaways = Giveaways(source, ImportOptions())
    for rows in source.rows():
        giveaways.add(rows)
    narrowed = giveaways.without("boats")
    assert narrowed is not None and narrowed.features == ("rx",)
    (dark,) = (note for note in narrowed.notes if "in all rows: " in note)
    assert dark.count("'dark") == 12 and dark.endswith(" and 48 more.")
    assert narrowed.notes[-1].startswith("To keep them: --features age,")
    assert narrowed.notes[-1].endswith(",....") and "rx" not in narrowed.notes[-1]


def test_the_unit_of_what_is_left_out_is_no_matter() -> None:
    """One person's weight is in g, not in kg."""
    assert left_out(frame(weight=lambda t, _: np.where(t.number == 2, 65000, 70))) == ("weight",)


def test_one_persons_rows_show_nothing(tmp_path: Path) -> None:
    """On a device there is one person; its columns must be those of all the others."""
    assert left_out(boats()[lambda t: t.user == "p1"]) == ()


def test_each_recordings_own_value_is_left_out(tmp_path: Path) -> None:
    for number in range(6):
        table = frame(2, age=lambda t, _: t.number)
        table.assign(age=number % 4 + table.age).to_csv(tmp_path / f"{number}.csv", index=False)
    made = imported(tmp_path / "*.csv", tmp_path / "out", window="none")
    assert made.card.features == ("rx",)
    assert "Left out, as they have one value in all rows of a recording: 'age'." in made.notes


def test_where_nothing_is_left_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    boats().drop(columns="rx").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"'trial'.*--features age,trial keeps all"):
        imported(path, tmp_path / "out", window="none")
    assert not (tmp_path / "out").exists()


def test_other_labels_are_known_by_their_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    text = ["label:ON_WATER,label:ON_LAND,postureLabel,label2,labeler_x,acc:mean,user"]
    for i in range(80):
        codes = rng.integers(0, 2, 4)
        text.append(f"{','.join(map(str, codes))},{rng.normal():.4f},{rng.normal():.4f},u{i % 2}")
    path = written(tmp_path / "a.csv", text)
    made = imported(path, tmp_path / "out", label="label:ON_WATER", window="none")
    assert made.card.features == ("labeler_x", "acc:mean")
    said = "Left out, as they seem to name person, class or time: 'label:ON_LAND', "
    assert f"{said}'postureLabel', 'label2'." in made.notes
    asked = imported(
        path, tmp_path / "b", label="label:ON_WATER", window="none", features="label2,acc:mean"
    )
    assert asked.card.features == ("label2", "acc:mean")


def test_what_begins_as_the_label_does_is_one_if_it_has_few_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    text = ["state_day,state_night,state_level,user"]
    text += [f"{rng.integers(2)},{rng.integers(2)},{rng.normal():.3f},u{i % 2}" for i in range(80)]
    path = written(tmp_path / "a.csv", text)
    made = imported(path, tmp_path / "out", label="state_day", window="none")
    assert made.card.features == ("state_level",)
    sensors = [text[0].replace("state", "watch"), *text[1:]]
    made = imported(
        written(tmp_path / "b.csv", sensors), tmp_path / "b", label="watch_day", window="none"
    )
    assert made.card.features == ("watch_night", "watch_level")


def test_ts_files_are_looked_at_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for person in range(4):
        text = ["@classLabel true a b", "@data"]
        for i in range(40):
            wave = ",".join(f"{value:.3f}" for value in rng.normal(size=8))
            text.append(f"{wave}:{','.join([str(person)] * 8)}:{'ab'[i % 2]}")
        written(tmp_path / f"p{person}.ts", text)
    made = imported(tmp_path / "*.ts", tmp_path / "out")
    assert made.card.features == ("dimension1",)
    assert "To keep them: --features dimension1,dimension2." in made.notes
    kept = imported(tmp_path / "*.ts", tmp_path / "all", features="dimension1,dimension2")
    assert kept.card.features == ("dimension1", "dimension2")


def test_a_source_of_named_features_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones((60, 2)), y=np.arange(60) % 2, subject=np.arange(60) // 30)
    for features, kept in (("", None), ("x", ("x1", "x2"))):
        options = ImportOptions(features=features)
        giveaways = Giveaways(source := array_files([path], NUMPY, options), options)
        for rows in source.rows():
            giveaways.add(rows)
        if kept is None:
            with pytest.raises(DataError, match="--features x keeps all"):
                giveaways.without("a")
        else:
            assert giveaways.without("a") is None


def few_valued(x: Any, shape: tuple[int, ...], low: Any, high: Any, levels: int) -> Any:
    """Return samples of which each feature has so many values."""
    low, high = np.reshape(low, shape), np.reshape(high, shape)
    return np.round(np.clip((x - low) / (high - low + 1e-9), 0, 1) * (levels - 1))


@pytest.mark.parametrize("name", ["wisdm", "wisdm-windows", "uci-har-stats", "wesad"])
def test_real_features_pass_even_with_few_values(real_data: Path, name: str) -> None:
    """As a coarse sensor has them, or one that is on or off."""
    federation = read_federation(real_data / name)
    one = next(iter(federation.clients.values()))
    shape = (-1, 1) if one.x.ndim == 3 else (-1,)
    axes = (0, 2) if one.x.ndim == 3 else (0,)
    x = np.concatenate([client.x for client in federation.clients.values()])
    least, middle, most = np.quantile(x, [0.01, 0.5, 0.99], axis=axes)
    for levels, low, high in ((2, middle, middle + 1e-6), (5, least, most), (30, least, most)):
        people = {
            client.client: (few_valued(client.x, shape, low, high, levels), client.y)
            for client in federation.clients.values()
        }
        kept = fedsub.federation(people, window="none").card.features
        assert len(kept) == len(federation.card.features), (levels, kept)
