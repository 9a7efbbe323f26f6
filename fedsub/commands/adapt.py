"""``fedsub adapt``: models for people who come after a run's last round."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedsub.commands.as_json import AS_JSON, console_beside, print_json
from fedsub.commands.declared import with_options
from fedsub.commands.terminal import FOLDER

if TYPE_CHECKING:
    from rich.table import Table

    from fedsub.newcomers.adapting import Adapted


@dataclass(frozen=True)
class LabelsAsked:
    """Which labels are used, and what becomes of those of people whom the run knows."""

    per_class: int | None
    test_share: float | None
    known: str


#: What the column of known people says.
_WORDS = {
    "": "no",
    "added": "yes, added",
    "replaced": "yes, replaced",
    "as new": "yes, as new",
}
#: Classes whose counts are shown one by one.
_SHOWN = 8


@click.command(short_help="Give people who come after a run a model of their own.")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data", required=True, help="the newcomers: a federation's folder; files need no labels y"
)
@click.option(
    "--person", "people", multiple=True, metavar="ID", help="only this one [default: all]"
)
@with_options(
    "labels",
    LabelsAsked,
    click.option(
        "--samples-per-class",
        "per_class",
        type=click.IntRange(min=0),
        metavar="K",
        help="how many labels of each class are learnt from, drawn at random from the training "
        "part; for a target, how many in all [default: all]",
    ),
    click.option(
        "--test-share",
        type=click.FloatRange(0, 1, max_open=True),
        help="share of each class's samples that is tested; 0: all labels are learnt "
        "[default: the run's]",
    ),
    click.option(
        "--known",
        type=click.Choice(("add", "replace")),
        default="add",
        show_default=True,
        help="of a person of the run: add the samples to its own in the sums, or replace these",
    ),
)
@click.option("--method", metavar="NAME", help="which of the run's methods [default: its --method]")
@click.option(
    "--out",
    type=FOLDER,
    help="new folder for <person>.safetensors [default: runs/<data>-adapted-<time>]",
)
@AS_JSON
def adapt(
    source: Path,
    data: str,
    people: tuple[str, ...],
    labels: LabelsAsked,
    method: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Solve a model for each person in --data, from a finished run's sums and the person's labels.

    SOURCE is a finished run's folder, or the file of `fedsub export --newcomers`. Nothing is
    trained, and nothing of the run changes. A person without labels gets everybody's model. The
    table's last column is a model of the person's own labels alone; of a target there is none.
    `fedsub predict` and `fedsub
    export` take each model with --state FILE.
    """
    from fedsub.newcomers.adapting import adapted
    from fedsub.newcomers.people import Labels, read_people
    from fedsub.newcomers.results import row_of, save_models, source_of
    from fedsub_core.config.run_config import RunConfig
    from fedsub_core.errors import RunError
    from fedsub_core.files import check_new_folder, stamped_folder

    if out is not None:
        check_new_folder(out, RunError)
    console = console_beside(as_json)
    given = source_of(source, method)
    newcomers = read_people(data).those(people)
    used = Labels(labels.per_class, labels.test_share)
    found = list(adapted(given, newcomers, used, labels.known))
    if out is None:
        out = stamped_folder(Path(RunConfig().out), f"{Path(data).resolve().name}-adapted")
    files = save_models(out, found)
    console.print(_table(found))
    named = " / ".join(found[0].labelled)
    alone = "" if newcomers.card.target else "; alone: macro F1 of a head of these alone"
    for text in (
        f"Labels are those that were used, of {named}{alone}.",
        f"Models: {out}",
        f"A person's model: fedsub predict --state {files[0]} --input NEW.npz",
    ):
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    if as_json:
        rows = [row_of(one) | {"labels": one.labelled} for one in found]
        print_json({"folder": str(out), "people": rows})


def _table(found: list[Adapted]) -> Table:
    """Return the table of people: labels, and what their models reach."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from fedsub.newcomers.results import row_of

    table = Table(box=SIMPLE_HEAD)
    table.add_column("person")
    table.add_column("in the run")
    columns = {"macro F1": ("macro_f1", ".3f"), "loss": ("loss", ".3f"),
               "alone": ("own_macro_f1", ".3f")}  # fmt: skip
    if found[0].model.card.target is not None:
        columns = {"MAE": ("mae", ".4g"), "RMSE": ("rmse", ".4g"), "R2": ("r2", ".3f")}
    for name in ("labels", "tested", *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        row = row_of(one)
        shown = [
            "-" if row[name] is None else f"{row[name]:{form}}" for name, form in columns.values()
        ]
        known, labels = _WORDS[one.known], _counts(list(one.labelled.values()))
        table.add_row(escape(one.person), known, labels, f"{one.tested:,}", *shown)
    return table


def _counts(labels: list[int]) -> str:
    """Return the number of labels of each class as text; of many classes the range."""
    if len(labels) <= _SHOWN:
        return "/".join(map(str, labels))
    return f"{min(labels)} to {max(labels)} a class"
