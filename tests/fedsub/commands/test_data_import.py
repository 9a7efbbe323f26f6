"""`fedsub data import`, as a user types it: what is said, and that the last line trains."""

from pathlib import Path

import numpy as np

from .calls import Call, assert_refused


def table(path: Path) -> Path:
    """A table of signals of three people; one row has no value."""
    lines = ["user,activity,time,ax,ay"]
    for person in ("01", "02", "03"):
        for i in range(400):
            x = np.sin(i * (0.3 if i < 200 else 1.1))
            state = "walk" if i < 200 else "run"
            lines.append(f"{person},{state},{i / 20:.2f},{x:.4f},{'' if i == 7 else -x:}")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_csv_is_imported_inspected_and_trained(fedsub: Call, tmp_path: Path) -> None:
    table(tmp_path / "walks.csv")
    code, said, err = fedsub("data", "import", "walks.csv", "--out", "walks", "--no-inspect")
    assert code == 0, err
    assert (
        "Guessed: --subject user." in said and "Guessed: --rate 20, the median over people." in said
    )
    assert "Dropped 3 rows with an empty cell or NaN (3 people); the first: walks.csv, " in said
    assert "line 9, column 'ay': got nothing, person '01'" in said
    assert "--missing interpolate" in said and "3 clients" in said
    last = said.strip().splitlines()[-1]
    assert last == "Train on it: fedsub run --data walks"
    _, *words = last.removeprefix("Train on it: ").split()
    few = ("--rounds", 1, "--method", "fedavg", "--beside", "", "--model", "mlp")
    code, said, err = fedsub(*words, *few)
    assert code == 0 and "fedavg" in said, err


def test_it_ends_with_the_page_of_inspect(fedsub: Call, tmp_path: Path) -> None:
    table(tmp_path / "walks.csv")
    code, said, err = fedsub("data", "import", "walks.csv", "--out", "walks", "--window", "2s")
    assert code == 0, err
    assert (tmp_path / "inspections" / "walks" / "report.html").stat().st_size > 0
    assert "Hopkins" in said and said.strip().endswith("fedsub run --data walks")


def test_what_is_resampled_is_said_and_inspect_says_it_again(fedsub: Call, tmp_path: Path) -> None:
    path = table(tmp_path / "walks.csv")
    slow = [
        line.replace("03,", "slow,", 1)
        for line in path.read_text("utf-8").splitlines()[801::2]
        if line[:3] == "03,"
    ]
    path.write_text("\n".join((path.read_text("utf-8").strip(), *slow)) + "\n", "utf-8")
    words = "slow: 10 Hz, resampled to 20 Hz: 50 % of points are interpolated."
    code, said, err = fedsub("data", "import", "walks.csv", "--out", "walks", "--no-inspect")
    assert code == 0 and words in said, err
    code, said, err = fedsub("data", "inspect", "walks")
    assert code == 0 and f"Warning: {words}" in " ".join(said.split()), err
    assert words in (tmp_path / "inspections" / "walks" / "report.html").read_text("utf-8")
    record = tmp_path / "walks" / "preparation.json"
    record.write_text('{"resampled": ["slow"]}', "utf-8")
    assert_refused(fedsub("data", "inspect", "walks"), "preparation.json: resampled: got", "Import")


def test_wrong_options_are_refused_in_one_line(fedsub: Call, tmp_path: Path) -> None:
    table(tmp_path / "walks.csv")
    call = ("data", "import", "walks.csv", "--out", "walks")
    assert_refused(fedsub(*call, "--window", "2 hours"), "window", "such as 2.56s, 500ms")
    assert_refused(fedsub(*call, "--missing", "fill"), "missing", "drop, interpolate, stop")
    assert_refused(fedsub(*call, "--from-name", "(a"), "regular expression")
    assert_refused(fedsub("data", "import", "no.csv", "--out", "walks"), "no.csv: no such file")
    (tmp_path / "walks").mkdir()
    (tmp_path / "walks" / "mine").touch()
    assert_refused(fedsub(*call), "already holds something")
    assert (tmp_path / "walks" / "mine").exists()


def test_the_help_keeps_examples_as_they_are_typed(fedsub: Call) -> None:
    _, said, _ = fedsub("data", "import", "--help")
    assert "\n  fedsub data import 'rec/s*.csv' --from-name 's(\\d+)' --window" in said
    assert r"\b" not in said


def test_a_table_of_features_is_split_by_order_and_the_page_says_so(
    fedsub: Call, tmp_path: Path
) -> None:
    """Its rows may be windows that overlap: nobody said that they do not."""
    rng = np.random.default_rng(6)
    lines = ["user,activity,mean,deviation"]
    for i in range(120):
        mean, deviation = rng.normal(size=2)
        lines.append(f"p{i % 3},{'ab'[i // 3 % 2]},{mean:.3f},{deviation:.3f}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", "utf-8")
    code, said, err = fedsub("data", "import", "t.csv", "--out", "t", "--no-inspect")
    unknown = "Whether samples overlap is not known"
    assert code == 0 and unknown in said, err
    few = ("--rounds", 1, "--method", "local", "--beside", "", "--report")
    code, said, err = fedsub("run", "--data", "t", *few)
    assert code == 0 and f"Warning: {unknown} for all 3 clients" in said, err
    (page,) = Path("runs").glob("*/report.html")
    assert f"{unknown} for all 3 clients" in page.read_text("utf-8")
    card = Path("t/federation.toml")
    card.write_text(card.read_text("utf-8").replace('"unknown"', "0.0"), "utf-8")
    code, said, _ = fedsub("run", "--data", "t", *few)
    assert code == 0 and unknown not in said and "Split: at random in each class" in said
