"""The page in a browser, as wide as a phone and wide, light and dark."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.report.report import write_report
from fedsub.studies.study_file import read_study
from fedsub.studies.study_page import write_study_page
from fedsub.studies.study_results import finished

from ..studies.made_studies import STUDY, made, nothing_tuned
from .made_runs import make_run

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# Browsers do not make windows as narrow as phones: the page stands in frames of a page that asks.
ASKING = """<!DOCTYPE html><title>asking</title><body><script>
const page = PAGE, found = [];
function ask(frame) {
  const d = frame.contentDocument, w = frame.contentWindow;
  const boxes = [...d.querySelectorAll('svg')].map(s => {
    const b = s.getBBox(), r = s.getBoundingClientRect();
    return [b.width * b.height, r.left, r.right, s.querySelectorAll('path, image, use').length];
  });
  d.querySelector('.skip').focus();
  return {
    width: w.innerWidth, wide: d.documentElement.scrollWidth, boxes,
    skip: d.querySelector('.skip').getBoundingClientRect().left,
    outline: w.getComputedStyle(d.activeElement).outlineStyle,
    paper: w.getComputedStyle(d.body).backgroundColor,
    ink: w.getComputedStyle(d.querySelector('svg text')).fill,
  };
}
for (const width of [360, 1200]) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.srcdoc = page;
  frame.onload = () => {
    found.push(ask(frame));
    if (found.length == 2) document.title = JSON.stringify(found);
  };
  document.body.append(frame);
}
</script></body>"""


NAMES = ("fedsub", "local", "fedclar", "fedavg-finetune", "perfedavg")


def of_a_run(place: Path) -> tuple[str, int]:
    """Return the page of a run whose people and folder have long names, and how many figures."""
    folder = place / "federation-of-a-long-name-20260101-000000"
    people = tuple(f"a person with quite a long name {i}" for i in range(4))
    scores = {name: (lambda r, i: 0.5 + 0.1 * i) for name in NAMES}
    page = write_report(make_run(folder, scores, people=people))[0].read_text("utf-8")
    # Of local what is confused, of fedsub clusters and who is in them, of fedclar groups.
    return page, 5 + len(NAMES) + 4


def of_a_study(place: Path) -> tuple[str, int]:
    """Return the page of a study of two tables, each of them with figures."""
    (place / "two.toml").write_text(STUDY)
    study = read_study(place / "two.toml")
    made(study, place)
    runs = finished(study, place, nothing_tuned(study))
    return write_study_page(study, place, runs).read_text("utf-8"), 2 * 7


@pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path")
@pytest.mark.parametrize(
    ("make", "dark"),
    [
        (of_a_run, False),
        (of_a_study, True),
        pytest.param(of_a_run, True, marks=pytest.mark.slow),
        pytest.param(of_a_study, False, marks=pytest.mark.slow),
    ],
)
def test_every_figure_is_shown_and_nothing_scrolls_sideways(
    make: Callable[[Path], tuple[str, int]], tmp_path: Path, dark: bool
) -> None:
    assert BROWSER is not None
    page, figures = make(tmp_path)
    # Inside a script no text may end it.
    text = json.dumps(page).replace("<", "\\u003c")
    asking = tmp_path / "asking.html"
    asking.write_text(ASKING.replace("PAGE", text), "utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
               "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}",
               f"--blink-settings=preferredColorScheme={0 if dark else 1}",
               "--enable-logging=stderr", "--window-size=1300,900", "--virtual-time-budget=4000",
               "--dump-dom", asking.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in shown.stderr, shown.stderr
    title = re.search(r"<title>(\[.*?\])</title>", shown.stdout)
    assert title is not None, shown.stdout[-300:]
    found = sorted(json.loads(title[1]), key=lambda each: each["width"])
    assert [each["width"] for each in found] == [360, 1200]
    for each in found:
        assert each["wide"] <= each["width"]
        assert len(each["boxes"]) == figures
        for area, left, right, marks in each["boxes"]:
            assert area > 10_000 and marks >= 3 and left >= 0 and right <= each["width"]
        assert each["skip"] >= 0 and each["outline"] != "none"
        dim = [sum(map(int, re.findall(r"\d+", each[key])[:3])) < 384 for key in ("paper", "ink")]
        assert dim == [dark, not dark]
