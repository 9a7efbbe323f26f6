"""`fedsub report`, and the report at the end of `fedsub run`."""

from __future__ import annotations

from pathlib import Path

from .calls import Call, assert_refused


def test_a_run_ends_with_its_report_which_can_be_written_again(
    fedsub: Call, town_folder: Path
) -> None:
    code, out, err = fedsub(
        *("run", "--data", town_folder, "--rounds", 2, "--threads", 1, "--report"),
        *("--beside", "local", "--set", "fedsub.k-selection=fixed:1"),
    )
    (folder,) = Path("runs").iterdir()
    page = folder / "report.html"
    assert (code, err) == (0, "") and out.endswith(f"Run folder: {folder}\nReport: {page}\n")
    text = page.read_text("utf-8")
    # Classes have their names, for the data lie where they lay.
    assert "fedsub: F1 of every person and class" in text and ">walk<" in text
    page.unlink()
    assert fedsub("report", folder) == (0, f"Report: {page}\n", "")
    assert page.read_text("utf-8") == text
    # The run is over: there is nothing to watch.
    assert fedsub("report", folder, "--watch")[1].endswith(f"Report: {page}\n")
    assert page.read_text("utf-8") == text


def test_what_is_no_run(fedsub: Call, town_folder: Path) -> None:
    assert_refused(fedsub("report", town_folder), "give the folder of a run")
    assert_refused(fedsub("report", town_folder, "--watch"), "not a run's folder")
