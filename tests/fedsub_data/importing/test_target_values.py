"""A column of numbers as target, instead of labels."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import read_federation
from fedsub_core.data.target import Target
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing import labels
from fedsub_data.importing.importing import import_files
from fedsub_data.importing.options import ImportOptions


def table(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = 40
    made = pd.DataFrame(
        {"person": ["ann"] * 20 + ["bob"] * 20, "skin": rng.normal(size=rows).round(3)}
    )
    return made.assign(pulse=np.round(70 + 8 * made["skin"] + rng.normal(size=rows), 2), **columns)


def test_values_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    given = table()
    given.to_csv(tmp_path / "a.csv", index=False)
    options = ImportOptions(target="pulse", target_unit="1/min")
    import_files([str(tmp_path / "a.csv")], tmp_path / "out", options, lambda done, of: None)
    made = read_federation(tmp_path / "out")
    ends = given["pulse"].min(), given["pulse"].max()
    assert made.card.target == Target("pulse", "1/min", *ends)
    assert made.card.features == ("skin",)
    assert made.clients["bob"].y.tolist() == given["pulse"][20:].tolist()


def test_a_dataframe_has_one_too() -> None:
    made = fedsub.federation(table(), target="pulse", target_range="40,180")
    assert made.card.target == Target("pulse", "", 40.0, 180.0)
    assert made.clients["ann"].y.dtype == np.float64


def test_rows_without_a_value_are_left_out() -> None:
    given = table()
    given.loc[3, "pulse"] = np.nan
    assert len(fedsub.federation(given, target="pulse").clients["ann"].y) == 19


@pytest.mark.parametrize(
    ("column", "named"), [(["fast"] + ["61.5"] * 39, "fast"), ([61.5] * 40, "61.5")]
)
def test_text_and_one_value_alone_are_refused(column: list[object], named: str) -> None:
    with refused(DataError, got=f"'{named}'" if named == "fast" else "one class"):
        fedsub.federation(table().assign(pulse=column), target="pulse")


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"target": "pulse", "label": "skin"}, "label"),
        ({"target": "pulse", "target_range": "180,40"}, "target-range"),
        ({"target_unit": "1/min"}, "target"),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict[str, str], key: str) -> None:
    with refused(ConfigError, key):
        fedsub.federation(table(), **given)


@pytest.mark.parametrize("kept", ["drop", "keep"])
def test_values_beyond_the_range_are_refused(kept: str, tmp_path: Path) -> None:
    given = table().assign(pulse=[50.5] + ["none"] * 10 + [70.0] * 28 + [190.5])
    given.to_csv(tmp_path / "a.csv", index=False)
    options = {"target": "pulse", "no_label": "none", "unlabelled": kept, "fewest": 1}
    for ends, got in (("60,200", 50.5), ("40,180", 190.5)):
        what = ImportOptions(**options, target_range=ends)  # type: ignore[arg-type]
        with refused(DataError, "ann" if got < 60 else "bob", "pulse", "target-range", got=got):
            import_files([str(tmp_path / "a.csv")], tmp_path / "out", what, lambda done, of: None)
        assert not (tmp_path / "out").exists()
    what = ImportOptions(**options, target_range="50.5,190.5")  # type: ignore[arg-type]
    import_files([str(tmp_path / "a.csv")], tmp_path / "out", what, lambda done, of: None)


def test_a_dataframe_beyond_the_range_is_refused() -> None:
    with refused(DataError, "ann", "target-range", expected="69 to 71"):
        fedsub.federation(table(), target="pulse", target_range="69,71")


def test_of_too_many_values_the_way_out_is_to_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MOST_VALUES", 10)
    with refused(DataError, "round the target 'pulse'", expected="10"):
        fedsub.federation(table(), target="pulse")
