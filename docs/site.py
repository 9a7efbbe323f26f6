"""Build the documents as a site: `make site`, or `python docs/site.py --out site`.

Its pages are the Markdown files of the project, as they are read in a checkout, and pages on
methods, commands, options and Python names that are written from the code. The name of a page in
backticks becomes a link to it, and so does `fedsub methods`. A paragraph such as
``Table: [...](results/base.csv)`` becomes the table in that file. Neither the build nor a reader's
browser asks another host for anything.
"""

import argparse
import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import tomli_w

import fedsub
from fedsub.cli import cli
from fedsub.report.markdown import markdown_table
from fedsub.report.methods import cards_by_package, default, markdown, meaning
from fedsub_core.config.run_config import RunConfig
from fedsub_core.extras import require
from fedsub_core.options import describe
from fedsub_core.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
#: The page of a wing that may be absent.
PAPERS = "fedsub_papers/studies/README.md"
#: Part of the site, page's title, file of the project or name of a page that is written here.
PAGES: tuple[tuple[str, str, str], ...] = (
    ("Start", "Start", "README.md"),
    ("Start", "Runs", "docs/running.md"),
    ("Start", "Which method?", "docs/which-method.md"),
    ("Start", "How it works", "docs/how-it-works.md"),
    ("Start", "What FedSub does not do", "docs/not-done.md"),
    ("Yours", "Your table", "docs/your-data.md"),
    ("Yours", "Data sets", "docs/data.md"),
    ("Yours", "From a table to a phone", "docs/notebooks/csv-to-phone.ipynb"),
    ("Yours", "Your model", "docs/models.md"),
    ("Yours", "Your loss and optimiser", "docs/training.md"),
    ("Yours", "Choosing a learning rate", "docs/learning-rate.md"),
    ("Yours", "Life after training", "docs/life.md"),
    ("Yours", "Your method", "CONTRIBUTING.md"),
    ("Results", "Studies", "studies/README.md"),
    ("Results", "Papers", PAPERS),
    ("Results", "Benchmarks", "benchmarks/README.md"),
    ("Deploy", "Deployment", "docs/deployment.md"),
    ("Deploy", "For months", "docs/service.md"),
    ("Deploy", "Phones", "docs/phones.md"),
    ("Deploy", "Without Python", "docs/web-device.md"),
    ("Deploy", "A device of your own", "docs/own-device.md"),
    ("Deploy", "Containers", "docker/README.md"),
    ("Deploy", "Events", "docs/events.md"),
    ("Deploy", "Privacy", "docs/privacy.md"),
    ("Deploy", "Limits of privacy", "docs/privacy-limits.md"),
    ("Deploy", "Security", "SECURITY.md"),
    ("Reference", "Methods", "methods"),
    ("Reference", "Commands", "commands"),
    ("Reference", "Options of a run", "options"),
    ("Reference", "Python", "python"),
    ("Reference", "Wire format", "docs/wire-format.md"),
    ("Reference", "Kernels and wheels", "docs/building.md"),
    ("Reference", "For Flower", "docs/upstream.md"),
    ("Reference", "Glossary", "docs/glossary.md"),
    ("Reference", "Changes", "CHANGELOG.md"),
)
PAGES = tuple(page for page in PAGES if page[2] != PAPERS or (ROOT / PAPERS).exists())
#: How mkdocstrings shows Python names.
_PYTHON: dict[str, Any] = {
    "paths": [str(ROOT)],
    "options": {
        "docstring_style": "numpy",
        "extensions": [str(ROOT / "docs" / "docstrings.py")],
        "filters": ["!^_[^_]", "!^__repr__"],
        "heading_level": 2,
        "separate_signature": True,
        "show_bases": False,
        "show_root_full_path": False,
        "show_root_heading": True,
        "show_source": False,
    },
}
#: Columns of a command's help.
WIDTH = 100
#: A page's results: a paragraph that names a file beside it.
TABLE = re.compile(r"^Table: \[[^\]]+\]\((results/[\w.-]+\.csv)\)$", re.MULTILINE)
#: Columns of such a file: the rows' names where a table has no title for them, and its last one,
#: the day on which a row was written down.
ROW, WRITTEN = "row", "written"


def page_name(source: str) -> str:
    """Return the file name of a page in the site: ``data.md`` of ``docs/data.md``."""
    if source == "README.md":
        return "index.md"
    path = Path(source)
    named = "-".join(path.parent.parts) if path.name == "README.md" else path.stem
    return f"{named.lower()}.md"


def linked(text: str, source: str) -> str:
    """Return a page's text with links to the site's pages where it names their files."""
    names = {one: page_name(one) for _, _, one in PAGES if one.endswith((".md", ".ipynb"))}
    here = Path(source).parent

    def of_link(found: re.Match[str]) -> str:
        target = (ROOT / here / found[2]).resolve()
        known = target.is_relative_to(ROOT) and target.relative_to(ROOT).as_posix()
        if known in names:
            return f"[{found[1]}]({names[known]}{found[3] or ''})"
        kept = not known or known.startswith("docs/images/") or "/results/" in known
        return found[0] if kept else found[1]

    def of_code(found: re.Match[str]) -> str:
        name = names.get(found[1]) or names.get((here / found[1]).as_posix())
        return f"[`{found[1]}`]({name})" if name and name != page_name(source) else found[0]

    def of_command(found: re.Match[str]) -> str:
        return found[0] if source == "methods" else f"[{found[0]}](methods.md)"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    for place in range(0, len(parts), 2):
        part = re.sub(r"(?<!!)\[([^\]]+)\]\(([\w./-]+)(#[\w-]*)?\)", of_link, parts[place])
        part = re.sub(r"(?<!\[)`([\w./-]+\.(?:md|ipynb))`(?!\])", of_code, part)
        parts[place] = re.sub(r"(?<!\[)`fedsub methods(?: NAME)?`(?!\])", of_command, part)
    # In the site images lie beside the pages.
    return "".join(parts).replace("](docs/images/", "](images/")


def source_text(source: str) -> str:
    """Return a page's text as it stands in its file; of a notebook, its cells as Markdown."""
    text = (ROOT / source).read_text("utf-8")
    if not source.endswith(".ipynb"):
        # A block's file or name is its title: what is no attribute makes plain text of the block.
        return re.sub(r"^(```\w+) (?:file=)?(\S+)$", r'\1 title="\2"', text, flags=re.MULTILINE)
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    parts = [f"```python\n{part}\n```" if kind == "code" else part for kind, part in cells]
    return "\n\n".join([*parts, f"This page is a notebook: `{source}`, in a checkout.", ""])


def with_tables(text: str, folder: Path) -> str:
    """Return a page's text with the tables of the files that it names below `folder`."""

    def of_file(found: re.Match[str]) -> str:
        with (folder / found[1]).open(encoding="utf-8", newline="") as file:
            head, *rows = csv.reader(file)
        if head[-1] != WRITTEN or any(len(row) != len(head) for row in rows):
            sys.exit(f"{folder / found[1]}: expected rows of {len(head)} cells, the last {WRITTEN}")
        days = sorted({row[-1] for row in rows})
        written = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        titles = ["" if title == ROW else title for title in head[:-1]]
        # A message that was cut may have lost the end of its code.
        cells = ([c if c.count("`") % 2 == 0 else c.replace("`", "'") for c in r] for r in rows)
        table = markdown_table(titles, (row[:-1] for row in cells))
        return "\n".join([*table, "", f"[CSV]({found[1]}), written {written}"])

    return TABLE.sub(of_file, text)


def methods() -> str:
    """Return the page of all methods, as `fedsub methods --markdown` prints it."""
    return linked(markdown(cards_by_package()), "methods")


def commands() -> str:
    """Return the page of all commands, as their helps have them."""
    lines = ["# Commands", ""]
    for name, command in _commands(cli, "fedsub"):
        # As the program's: a command keeps its help option from the first time it is asked for.
        names = ["-h", "--help"]
        context = click.Context(
            command, info_name=name, max_content_width=WIDTH, help_option_names=names
        )
        context.terminal_width = WIDTH
        lines += [f"## {name}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for key, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(inner, f"{name} {key}")


def options() -> str:
    """Return the page of a run's options, with what each takes when it is not given."""
    rows = [
        (
            f"`{one.key}`",
            f"`{default(one)}`" if default(one) else "none",
            meaning(one),
            "" if one.type is str else one.expected,
        )
        for one in describe(RunConfig)
    ]
    return "\n".join(
        [
            "# Options of a run",
            "",
            "In `run.toml`, as `--set KEY=VALUE`, or as `--KEY VALUE`. A method's own options "
            "have its name in front: `--set fedsub.fusion=avg` ([methods](methods.md)).",
            "",
            *markdown_table(("option", "default", "meaning", "values"), rows),
            "",
        ]
    )


def python() -> str:
    """Return the page of the public Python names, as mkdocstrings fills it from docstrings."""
    lines = ["# Python", "", "`import fedsub`. Examples: [your table](your-data.md#from-python)."]
    for name in sorted(fedsub.__all__, key=str.lower):
        known = getattr(fedsub, name)
        lines += ["", f"::: {known.__module__}.{known.__qualname__}"]
    return "\n".join([*lines, ""])


def write_sources(folder: Path) -> None:
    """Write what Zensical builds: its settings, and all pages as Markdown."""
    pages = folder / "pages"
    pages.mkdir()
    written = {"methods": methods, "commands": commands, "options": options, "python": python}
    nav: dict[str, list[dict[str, str]]] = {}
    for part, title, source in PAGES:
        if source in written:
            text = written[source]()
        else:
            beside = (ROOT / source).parent
            text = linked(with_tables(source_text(source), beside), source)
            for file in beside.glob("results/*.csv"):
                (pages / "results").mkdir(exist_ok=True)
                shutil.copy(file, pages / "results")
        (pages / page_name(source)).write_text(text, "utf-8")
        nav.setdefault(part, []).append({title: page_name(source)})
    shutil.copytree(ROOT / "docs" / "images", pages / "images")
    theme = {
        "font": False,  # else readers' browsers ask another host for letters
        "features": ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"],
        "palette": [
            {"media": "(prefers-color-scheme: light)", "scheme": "default"},
            {"media": "(prefers-color-scheme: dark)", "scheme": "slate"},
        ],
    }
    settings = {
        "site_name": f"FedSub {VERSION}",
        "site_description": "Personalised federated learning for phones and wearables",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,
        "nav": [{part: entries} for part, entries in nav.items()],
        "theme": theme,
        "plugins": {"mkdocstrings": {"handlers": {"python": _PYTHON}}},
    }
    (folder / "zensical.toml").write_text(tomli_w.dumps({"project": settings}), "utf-8")


def build(out: Path) -> None:
    """Write the site into a folder that is not there yet; a page that leads nowhere stops it."""
    require("the site", "zensical", "mkdocstrings_handlers")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sources(folder)
        zensical = Path(sys.executable).with_name("zensical")
        command = [str(zensical), "build", "--strict", "-f", str(folder / "zensical.toml")]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}")
        shutil.copytree(folder / "site", out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("site"), help="a folder to write")
    build(parser.parse_args().out)
