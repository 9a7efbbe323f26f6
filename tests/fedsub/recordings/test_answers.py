"""Answers for recordings: those of the model for the same windows, or a refusal that says why."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsub.api.models import PersonModel
from fedsub.recordings.answers import Asked, RecordingAnswers, open_recordings
from fedsub.recordings.source import TableRecordings
from fedsub.testing.refusals import refused
from fedsub_client.personal_model import PersonalModel
from fedsub_core.errors import ConfigError, DataError
from tests.fedsub.recordings.made_recordings import CARD, made_frame, made_model


@pytest.fixture(scope="module")
def model() -> PersonalModel:
    return made_model()


def test_a_frame_and_its_file_have_the_answers_of_its_windows(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    frame = made_frame(rng)
    found = PersonModel(model).predict_recording(frame)
    signal = frame[list(CARD.features)].to_numpy(np.float32).T
    x = np.stack([signal[:, at : at + 40] for at in range(0, 1961, 20)])
    expected = model.probabilities(x)
    shares = found[[f"probability {name}" for name in CARD.classes]].to_numpy()
    np.testing.assert_array_equal(shares, expected)
    assert found["start"].tolist() == list(range(99)) and found["end"].tolist()[0] == 2.0
    assert found["class"].tolist() == [CARD.classes[i] for i in expected.argmax(1)]
    assert len(set(found["class"])) > 1
    assert sum(found.attrs["minutes"].values()) == pytest.approx(100 / 60)
    frame.to_csv(tmp_path / "day.csv", index=False)
    of_file = PersonModel(model).predict_recording(tmp_path / "day.csv")
    np.testing.assert_allclose(of_file["probability walk"], found["probability walk"], atol=1e-6)


def test_what_is_not_sure_is_unknown(model: PersonalModel, rng: np.random.Generator) -> None:
    own = PersonModel(model)
    frame = made_frame(rng)
    plain = own.predict_recording(frame)
    middle = float(plain["probability"].median())
    found = own.predict_recording(frame, unknown_below=middle)
    unsure = plain["probability"] < middle
    assert 0 < unsure.sum() < len(plain)
    assert ((found["class"] == "unknown") == unsure).all()
    assert found.attrs["minutes"]["unknown"] > 0


def test_dates_stay_dates_and_other_columns_are_named(
    model: PersonalModel, rng: np.random.Generator
) -> None:
    frame = made_frame(rng)
    frame["time"] = pd.Timestamp("2026-03-01 08:00") + pd.to_timedelta(frame["time"], unit="s")
    frame["activity"], frame["battery"] = "rest", 3.7
    found = PersonModel(model).predict_recording(frame)
    assert found["start"][1] == pd.Timestamp("2026-03-01 08:00:01")
    notes = " ".join(found.attrs["notes"])
    assert "Not used: 'activity'" in notes and "Not read: 'battery'" in notes


def test_without_times_the_models_rate_is_assumed_and_said(
    model: PersonalModel, rng: np.random.Generator
) -> None:
    frame = made_frame(rng)
    timed = PersonModel(model).predict_recording(frame)
    untimed = PersonModel(model).predict_recording(frame.drop(columns="time"))
    np.testing.assert_allclose(untimed["probability"], timed["probability"], atol=1e-6)
    assert any("20 rows a second are assumed" in note for note in untimed.attrs["notes"])
    slower = PersonModel(model).predict_recording(frame.drop(columns="time"), row_rate=40.0)
    assert len(slower) == 49


def test_another_unit_is_refused_or_converted(
    model: PersonalModel, rng: np.random.Generator
) -> None:
    frame = made_frame(rng)
    expected = PersonModel(model).predict_recording(frame)
    for factor, unit in ((9.80665, "g"), (9.80665e-3, "mg")):
        other = frame.copy()
        other[list(CARD.features)] /= factor
        with refused(DataError, "acc_x", unit, "m/s^2"):
            PersonModel(model).predict_recording(other)
        found = PersonModel(model).predict_recording(other, convert="m/s^2")
        np.testing.assert_allclose(found["probability"], expected["probability"], atol=1e-3)
        if unit == "g":  # thousandths are too far from all training data for any answer
            assert len(PersonModel(model).predict_recording(other, mixed_units="keep")) == 99


def spoiled(frame: Any, how: str) -> Any:
    if how == "channel":
        return frame.drop(columns="acc_y")
    if how == "short":
        return frame.head(30)
    if how == "backwards":
        frame.loc[500:, "time"] -= 10
    if how == "text":
        frame["acc_x"] = frame["acc_x"].astype(object)
        frame.loc[40, "acc_x"] = "broken"
    if how == "slow":
        frame["time"] *= 3
    if how == "nan":
        frame["acc_x"] = np.nan
    if how == "empty":
        return frame.head(0)
    return frame


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("channel", ["acc_y"]),
        ("short", ["1.5", "2"]),
        ("backwards", ["row 501", "24.95"]),
        ("text", ["row 41", "acc_x", "broken"]),
        ("slow", ["6.667", "10", "20"]),
        ("nan", ["row"]),
        ("empty", ["rows"]),
    ],
)
def test_refusals_name_what_is_wrong(
    model: PersonalModel, rng: np.random.Generator, how: str, words: list[str], tmp_path: Path
) -> None:
    frame = spoiled(made_frame(rng), how)
    with refused(DataError, *words):
        PersonModel(model).predict_recording(frame)
    if how != "text":  # a row's number is a line's there
        frame.to_csv(tmp_path / "day.csv", index=False)
        with pytest.raises(DataError, match=r"day\.csv"):
            PersonModel(model).predict_recording(tmp_path / "day.csv")


def test_time_that_runs_backwards_is_sorted_or_begins_a_recording(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    frame = made_frame(rng)
    expected = PersonModel(model).predict_recording(frame)
    turned = frame.iloc[::-1]
    turned.to_csv(tmp_path / "day.csv", index=False)
    for given in (turned.reset_index(drop=True), tmp_path / "day.csv"):
        found = PersonModel(model).predict_recording(given, backwards="sort")
        np.testing.assert_allclose(found["probability"], expected["probability"], atol=1e-5)
    twice = pd.concat([frame, frame]).reset_index(drop=True)
    found = PersonModel(model).predict_recording(twice, backwards="split")
    assert found["start"].tolist() == [*range(99), *range(99)]
    assert sum(found.attrs["minutes"].values()) == pytest.approx(200 / 60)


def test_of_several_recordings_a_short_one_is_named(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    made_frame(rng).to_csv(tmp_path / "a.csv", index=False)
    made_frame(rng, 30).to_csv(tmp_path / "b.csv", index=False)
    found = PersonModel(model).predict_recording(tmp_path)
    assert set(found["recording"]) == {"a.csv"}
    assert any(note.startswith("b.csv: got 1.5 s") for note in found.attrs["notes"])


def test_a_file_that_grows_while_it_is_read_is_refused(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "day.csv"
    made_frame(rng).to_csv(file, index=False)
    named = TableRecordings._name

    def grows(self: TableRecordings) -> None:
        with open(file, "a", encoding="utf-8") as out:
            out.write("100.05,0,9,1\n")
        named(self)

    monkeypatch.setattr(TableRecordings, "_name", grows)
    with refused(DataError, "changed while it was read"):
        PersonModel(model).predict_recording(file)


def test_empty_file_and_unknown_options_are_refused(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    (tmp_path / "day.csv").write_text("")
    with refused(DataError, got="an empty file"):
        PersonModel(model).predict_recording(tmp_path / "day.csv")
    own, frame = PersonModel(model), made_frame(rng)
    for given in ({"rate": 5}, {"convert": "as:anna"}, {"smooth": "soon"}, {"unknown_below": 2}):
        with pytest.raises(ConfigError):
            own.predict_recording(frame, **given)


def test_classes_last_as_long_as_in_training_if_that_is_asked(
    model: PersonalModel, rng: np.random.Generator
) -> None:
    frame = made_frame(rng)
    known = PersonModel(replace(model, stay_s=10.0))
    answers = known.predict_recording(frame, smooth="training")
    pd.testing.assert_frame_equal(answers, known.predict_recording(frame, smooth="10s"))
    assert not answers.equals(known.predict_recording(frame))
    with refused(ConfigError, "smooth", got="training", expected="10s; no two windows"):
        PersonModel(model).predict_recording(frame, smooth="training")


def test_a_head_without_names_and_another_form_of_time_are_read(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    frame, file = made_frame(rng), tmp_path / "day.csv"
    plain = PersonModel(model).predict_recording(frame)
    begun = pd.Timestamp("2026-03-04 10:00")
    frame["time"] = (begun + pd.to_timedelta(frame["time"], "s")).dt.strftime(
        "%Y|%m|%d %H:%M:%S.%f"
    )
    file.write_text("made by hand\nin a hurry\n" + frame.to_csv(index=False, header=False))
    answers = PersonModel(model).predict_recording(
        file,
        skip_lines=2,
        column_names="time,acc_x,acc_y,acc_z",
        time_format="%Y|%m|%d %H:%M:%S.%f",
    )
    assert answers["class"].tolist() == plain["class"].tolist()
    assert "10:00" in str(answers["start"].iloc[0])


def test_small_blocks_of_a_file_give_the_same_answers(
    model: PersonalModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    from fedsub_data.importing.options import ImportOptions

    made_frame(rng, 3000, 50.0).to_csv(tmp_path / "day.csv", index=False)
    made = []
    for size in (1 << 16, 171):
        source = open_recordings(tmp_path / "day.csv", CARD.features, ImportOptions())
        answers = RecordingAnswers(model, source, ImportOptions(), Asked(smooth_s=10.0))
        made.append(np.concatenate([block.shares for block in answers.blocks(size)]))
        source.close()
    assert len(made[0]) == 59
    np.testing.assert_array_equal(made[0], made[1])
