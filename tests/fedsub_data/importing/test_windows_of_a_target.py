"""Recordings with a target: a window's value is the mean of its rows', and more are added."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.data.target import Target
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.adding import add_files
from fedsub_data.importing.importing import import_files
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.windowing import mean_values

CUT: dict[str, Any] = {
    "target": "pulse", "target_unit": "1/min", "target_range": "40,180", "window": "1s",
    "overlap": 0.0, "fewest": 2,
}  # fmt: skip


def recording(*people: str, start: float = 0.0, rows: int = 60) -> pd.DataFrame:
    """Rows at 10 Hz, the pulse of which rises by one each row."""
    parts = [
        pd.DataFrame(
            {
                "person": person,
                "time": start + np.arange(rows) / 10,
                "skin": np.sin(np.arange(rows) + start + k),
                "pulse": 60.0 + np.arange(rows),
            }
        )
        for k, person in enumerate(people)
    ]
    return pd.concat(parts, ignore_index=True)


def added(folder: Path, table: pd.DataFrame, **given: Any) -> None:
    table.to_csv(folder.parent / "more.csv", index=False)
    keys = [key.replace("_", "-") for key in given]
    options = ImportOptions(**given)
    add_files([str(folder.parent / "more.csv")], folder, options, keys, False, lambda i, of: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recording("ann", "bob").to_csv(tmp_path / "a.csv", index=False)
    out, options = tmp_path / "out", ImportOptions(**CUT)
    import_files([str(tmp_path / "a.csv")], out, options, lambda done, of: None)
    return out


def test_a_windows_value_is_the_mean_of_its_rows(folder: Path) -> None:
    made = read_federation(folder)
    assert made.card.target == Target("pulse", "1/min", 40.0, 180.0) and made.card.window_s == 1.0
    assert made.clients["ann"].x.shape == (6, 1, 10)
    assert made.clients["ann"].y.tolist() == [64.5, 74.5, 84.5, 94.5, 104.5, 114.5]


def test_a_dataframe_is_cut_alike(folder: Path) -> None:
    made = fedsub.federation(recording("ann", "bob"), **CUT)
    assert np.array_equal(made.clients["bob"].y, read_federation(folder).clients["bob"].y)


def test_windows_of_which_too_few_rows_have_a_value_are_left_out() -> None:
    table = recording("ann")
    table.loc[:3, "pulse"] = np.nan  # four of ten of the first window
    table.loc[10:12, "pulse"] = np.nan  # three of ten of the second
    made = fedsub.federation(table, **CUT, purity=0.7)
    assert made.clients["ann"].y.tolist() == [76.0, 84.5, 94.5, 104.5, 114.5]


def test_windows_without_a_value_are_kept_apart(tmp_path: Path) -> None:
    table = recording("ann", "bob")
    table.loc[:9, "pulse"] = np.nan
    table.to_csv(tmp_path / "a.csv", index=False)
    out, options = tmp_path / "out", ImportOptions(**CUT, unlabelled="keep")
    import_files([str(tmp_path / "a.csv")], out, options, lambda done, of: None)
    apart = np.load(out / "unlabelled" / "clients" / "ann.npz")
    assert apart["x"].shape == (1, 1, 10) and "y" not in apart
    assert len(read_federation(out).clients["ann"].y) == 5


def test_means_keep_their_digits_and_stay_between_the_values() -> None:
    values = 1e9 + np.array([0.1, 0.2, 0.3, np.nan, 0.3, 0.3])
    means = mean_values(values, np.array([0, 3]), 3, 0.5)
    assert means == pytest.approx([1e9 + 0.2, 1e9 + 0.3], abs=1e-6)
    assert means[1] <= np.nanmax(values)
    assert np.isnan(mean_values(np.full(3, np.nan), np.array([0]), 3, 0.0)).all()


def test_newer_recordings_are_added_behind_and_new_people_beside(folder: Path) -> None:
    added(folder, recording("ann", "cy", start=100.0, rows=30))
    made = read_federation(folder)
    assert made.clients["ann"].y.tolist()[-3:] == [64.5, 74.5, 84.5]
    assert len(made.clients["ann"].y) == 9 and set(made.clients) == {"ann", "bob", "cy"}
    assert made.card.target == Target("pulse", "1/min", 40.0, 180.0)


def test_rows_are_added_to_rows(tmp_path: Path) -> None:
    table = recording("ann", "bob").drop(columns="time")
    table.to_csv(tmp_path / "a.csv", index=False)
    out, options = tmp_path / "out", ImportOptions(target="pulse", target_range="40,180")
    import_files([str(tmp_path / "a.csv")], out, options, lambda done, of: None)
    added(out, recording("ann", start=0.5, rows=5).drop(columns="time"))
    assert read_federation(out).clients["ann"].y.tolist()[-5:] == [60.0, 61.0, 62.0, 63.0, 64.0]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"target": "skin"}, "target"),
        ({"target": "pulse", "target_range": "40,200"}, "target-range"),
        ({"window": "2s"}, "window"),
    ],
)
def test_what_the_card_fixes_is_not_given_anew(
    given: dict[str, str], named: str, folder: Path
) -> None:
    before = (folder / "federation.toml").read_bytes()
    with refused(ConfigError, named):
        added(folder, recording("ann", start=100.0), **given)
    assert (folder / "federation.toml").read_bytes() == before
    added(folder, recording("ann", start=100.0), target="pulse", target_range="40.0,180")


@pytest.mark.parametrize(("value", "named"), [(181.0, "target-range"), ("fast", "fast")])
def test_values_that_do_not_fit_change_nothing(value: object, named: str, folder: Path) -> None:
    table = recording("ann", "cy", start=100.0).astype({"pulse": object})
    table.iloc[70, table.columns.get_loc("pulse")] = value
    before = {path: path.read_bytes() for path in folder.rglob("*.npz")}
    with refused(DataError, named, "pulse"):
        added(folder, table)
    assert {path: path.read_bytes() for path in folder.rglob("*.npz")} == before


def test_a_target_is_not_added_to_classes(tmp_path: Path) -> None:
    table = recording("ann", "bob").assign(pulse=["low", "high"] * 60)
    table.to_csv(tmp_path / "a.csv", index=False)
    out, options = tmp_path / "out", ImportOptions(label="pulse", window="none", time="none")
    import_files([str(tmp_path / "a.csv")], out, options, lambda done, of: None)
    with refused(ConfigError, "target"):
        added(out, recording("ann", start=100.0), target="pulse")
