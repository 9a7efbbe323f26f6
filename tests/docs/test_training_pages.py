"""Pages on training, rates and life afterwards: every line, as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.config.own_training import OwnTraining
from fedsub_core.config.schedules import SCHEDULES
from fedsub_core.options import describe
from fedsub_core.training.augmentation import CHANGES
from fedsub_core.training.own_losses import LOSSES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Return a page's blocks: language, name of a file, text."""
    text = (DOCS / page).read_text("utf-8")
    return re.findall(r"^```(\w+)(?: file=(\S+))?\n(.+?)^```", text, re.MULTILINE | re.DOTALL)


def run_page(page: str, folder: Path) -> str:
    """Write a page's files, then run its lines of a shell and its Python; return what they say."""
    said, found = [], blocks(page)
    for _, name, text in found:
        if name:
            (folder / name).write_text(text)
    bin_ = Path(sys.executable).parent
    env = os.environ | {"PATH": f"{bin_}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    for language, name, text in found:
        script = "\n".join(line.removeprefix("$ ") for line in text.splitlines())
        if language == "console":
            command = ["bash", "-euo", "pipefail", "-c", script]
        elif language == "python" and not name:
            command = [sys.executable, "-c", text]
        else:
            continue
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{script}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        said.append(done.stdout)
    return "\n".join(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("training.md", "1 0."),
        ("learning-rate.md", "Chosen for ditto on a validation part"),
        ("life.md", "macro_f1"),
    ],
)
def test_every_line_of_the_page_runs(page: str, expected: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    rows = [(f"p{i % 4}", *draw.normal(size=2), 70 + 9 * draw.normal()) for i in range(160)]
    lines = [f"{person},{a:.3f},{b:.3f},{pulse:.1f}" for person, a, b, pulse in rows]
    (tmp_path / "visits.csv").write_text("\n".join(["person,a,b,pulse", *lines]))
    assert expected in run_page(page, tmp_path)


def test_the_page_names_all_that_is_built_in() -> None:
    text = (DOCS / "training.md").read_text("utf-8")
    for name in (*LOSSES, *CHANGES, *(one for one in SCHEDULES if one != "constant")):
        assert f"`{name}(" in text or f"`{name}`" in text, name
    assert all(f"| `{one.key}` |" in text for one in describe(OwnTraining))
    (code,) = [text for _, name, text in blocks("training.md") if name]
    loss = code[code.index("def confident") : code.index("def shift")]
    assert len(loss.strip().splitlines()) == 4, "as the page says"
