"""Tables of a run's methods: what stands in each column, and what tables leave unsaid, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from fedsub_server.method_summary import MethodSummary
from fedsub_server.run_folder import humanise_bytes
from fedsub_server.task_scores import CLASSES, TARGET
from fedsub_server.twins import IN_WORDS, LOCAL, OWN

#: Numbers of people's own heads that a row of them has.
_NUMBERS = ("macro_f1", "macro_f1_ci95", "macro_f1_p10", "weighted_f1", "loss", "clients")


@dataclass(frozen=True)
class Column:
    """One column of a table of methods: its title of two lines, and what stands in it."""

    title: str
    cell: Callable[[MethodSummary], str]
    is_text: bool = False


def _number(name: str, spec: str) -> Callable[[MethodSummary], str]:
    def cell(summary: MethodSummary) -> str:
        value = getattr(summary, name)
        return "-" if value is None else format(value, spec)

    return cell


def _with_interval(name: str, spec: str) -> Callable[[MethodSummary], str]:
    def cell(summary: MethodSummary) -> str:
        value, half = getattr(summary, name), getattr(summary, f"{name}_ci95")
        if value is None:
            return "-"
        clients = summary.r2_clients if name == "r2" else summary.clients
        # The column would be wide in every table; only where somebody is missing does it matter.
        people = f" ({clients} of {summary.people})" if clients < summary.people else ""
        return f"{value:{spec}}{'' if half is None else f' ± {half:{spec}}'}{people}"

    return cell


def _tested(summary: MethodSummary) -> str:
    """Return the tested model, short: a table of a terminal is narrow."""
    chosen = "" if summary.best_round is None else f", round {summary.best_round:g}*"
    return (summary.tested or "-") + chosen


METHOD = Column("\nmethod", lambda s: s.method, is_text=True)
#: What methods reached.
REACHED = (
    METHOD,
    Column("\ntested", _tested, is_text=True),
    Column("macro F1\n± 95 %", _with_interval("macro_f1", ".3f")),
    Column("10th\nperc.", _number("macro_f1_p10", ".3f")),
    Column("weighted\nF1", _number("weighted_f1", ".3f")),
    Column("\nloss", _number("loss", ".3f")),
)
#: The same of a target.
ERRORS = (
    *REACHED[:2],
    Column("MAE\n± 95 %", _with_interval("mae", ".4g")),
    Column("\nRMSE", _number("rmse", ".4g")),
    Column("R2\n± 95 %", _with_interval("r2", ".3f")),
    Column("\nloss", _number("loss", ".4f")),
)
#: How evenly clients are served, and how many of their model's numbers are zero.
FAIRNESS = (
    METHOD,
    Column("macro\nF1 std", _number("macro_f1_std", ".3f")),
    Column("\nmin", _number("macro_f1_min", ".2f")),
    Column("\nmax", _number("macro_f1_max", ".2f")),
    Column("accu-\nracy", _number("accuracy", ".3f")),
    Column("\nstd", _number("accuracy_std", ".3f")),
    Column("\nmin", _number("accuracy_min", ".2f")),
    Column("\nmax", _number("accuracy_max", ".2f")),
    Column("zeros:\nweights", _number("sparsity_weights", ".1%")),
    Column("\nall", _number("sparsity_all", ".1%")),
)
#: What clients sent and received a round: in bytes, and in full float32 models.
BYTES = (
    METHOD,
    Column(
        "bytes up,\na round", lambda s: "-" if s.bytes_up is None else humanise_bytes(s.bytes_up)
    ),
    Column("models\nup", _number("full_models_up_sent", ".3f")),
    Column("(union\nof rows,", _number("full_models_up_union", ".3f")),
    Column("papers'\nwire)", _number("full_models_up_papers", ".3f")),
    Column("\ndown", _number("full_models_down_sent", ".3f")),
    Column("down to\nevaluate", _number("full_models_evaluation_sent", ".3f")),
)


def by_capacity(summaries: Sequence[MethodSummary]) -> tuple[Column, ...]:
    """Return the table of macro F1 or MAE by capacity; no column where all hold everything."""
    of_target = any(summary.mae is not None for summary in summaries)
    metric, short = ("mae", "MAE") if of_target else ("macro_f1", "F1")
    people: dict[str, set[str]] = {}
    for share, facts in (one for summary in summaries for one in summary.by_capacity.items()):
        people.setdefault(share, set()).add(f"{facts['people']:g}")

    def at(share: str) -> Callable[[MethodSummary], str]:
        def cell(summary: MethodSummary) -> str:
            found = summary.by_capacity.get(share, {}).get(metric)
            return "-" if found is None else f"{found:.3f}"

        return cell

    shares = sorted(people, key=float, reverse=True)
    of = {share: " or ".join(sorted(people[share])) for share in shares}
    columns = [Column(f"{short} at {s},\nof {of[s]}", at(s)) for s in shares]
    return (METHOD, *columns) if columns else ()


def reached(summaries: Sequence[MethodSummary]) -> tuple[Column, ...]:
    """Return :data:`REACHED`, and how many people are worse off than with the run's twin.

    Of a target these are :data:`ERRORS`.
    """
    twin = twin_of(summaries)
    plain = REACHED if all(summary.mae is None for summary in summaries) else ERRORS
    worse = Column(f"worse than\n{twin}", _number("worse_than_twin", ".0%"))
    return plain if twin is None else (*plain, worse)


#: A table of a run: its columns, and who has a row.
Table = tuple[tuple[Column, ...], Sequence[MethodSummary]]


def tables_of(summaries: Sequence[MethodSummary]) -> list[Table]:
    """Return the tables of a run, in their order, without columns that hold dashes alone."""
    tables: list[Table] = [(reached(summaries), with_own_heads(summaries))]
    tables += [(each, summaries) for each in (FAIRNESS, BYTES, by_capacity(summaries))]
    filled = [
        (tuple(c for c in columns if c is METHOD or any(c.cell(one) != "-" for one in rows)), rows)
        for columns, rows in tables
    ]
    return [(columns, rows) for columns, rows in filled if len(columns) > 1]


def text_table(summaries: Sequence[MethodSummary], columns: Sequence[Column]) -> str:
    """Return a table as plain text, for a log; a row per method."""
    titles = [column.title.split("\n") for column in columns]
    rows = [[title[line] for title in titles] for line in (0, 1)]
    rows += [[column.cell(summary) for column in columns] for summary in summaries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in rows
    )


def encodings(summaries: Sequence[MethodSummary]) -> str:
    """Return the encodings of methods' messages in a line: bytes compare only within one."""
    users: dict[str, dict[str, None]] = {}
    for summary in summaries:
        users.setdefault(summary.encoding or "unknown", {})[summary.method] = None
    return "; ".join(f"{encoding}: {', '.join(names)}" for encoding, names in users.items())


def legend(summaries: Sequence[MethodSummary]) -> list[str]:
    """Return the lines under a run's tables: what is counted, and what a star means."""
    lines = ["Models up and down: full models in float32, a person and round, as sent."]
    if any(summary.full_models_up_union is not None for summary in summaries):
        lines[0] += (
            " In parentheses, never sent: each selected row once; each class's subnetwork on its "
            "own, as the papers write it."
        )
    lines += [sentence for sentence in (twin_in_words(summaries),) if sentence]
    lines += spent_by_noise(summaries)
    if any(summary.best_round is not None for summary in summaries):
        of = CLASSES if all(summary.mae is None for summary in summaries) else TARGET
        lines.append(
            f"* Tested is each person's best round so far by {of.title} on a validation part of "
            "the training samples, never by tested ones; the round is the median over people."
        )
    return lines


def spent_by_noise(summaries: Sequence[MethodSummary]) -> list[str]:
    """Return the epsilon that each method's noise has spent, in lines; none without noise."""
    lines = [
        f"{summary.method}: epsilon {summary.epsilon:.3g} at delta {summary.epsilon_delta:g}, of "
        f"{summary.epsilon_of}."
        for summary in summaries
        if summary.epsilon is not None
    ]
    if len(lines) > 1:
        lines.append("Who sees numbers of several methods or runs learns more: epsilons add up.")
    return lines


def twin_of(summaries: Sequence[MethodSummary]) -> str | None:
    """Return the twin of a run's methods; None without one."""
    return next((summary.twin for summary in summaries if summary.twin), None)


def own_heads(summaries: Sequence[MethodSummary]) -> MethodSummary | None:
    """Return the summary of people's own heads, as if they were a method; None without any.

    All methods of a run say the same of the same people. Own heads are held against `local`, so it
    is asked first.
    """
    known = [summary for summary in summaries if summary.own_heads_macro_f1 is not None]
    if not known:
        return None
    source = next((summary for summary in known if summary.method == LOCAL), known[0])
    row: dict[str, Any] = {f.name: None for f in fields(MethodSummary)}
    row |= {name: getattr(source, name) for name in ("rounds", "evaluated_round", "people")}
    row |= {name: getattr(source, f"own_heads_{name}") for name in _NUMBERS}
    row |= {"method": OWN, "tested": "alone", "seconds": 0.0}
    return MethodSummary(**row | {"left_out": "", "diverged": "", "by_capacity": {}})


def with_own_heads(summaries: Sequence[MethodSummary]) -> list[MethodSummary]:
    """Return the summaries, with that of people's own heads at the end, if there are any."""
    own = own_heads(summaries)
    return [*summaries, own] if own else list(summaries)


def twin_in_words(summaries: Sequence[MethodSummary]) -> str:
    """Return a sentence on the twin of a run's methods; "" without one."""
    twin, own = twin_of(summaries), own_heads(summaries)
    if twin is None:
        return ""
    words = f"Held against {twin}: {IN_WORDS[twin]}."
    alone = next((summary.macro_f1 for summary in summaries if summary.method == LOCAL), None)
    if alone is not None and own is not None and own.macro_f1 is not None:
        other, less = (LOCAL, alone) if twin == OWN else (OWN, own.macro_f1)
        words += f" {other[0].upper()}{other[1:]}, {IN_WORDS[other]}, reached {less:.3f}."
    return words
