"""What a lying server tells devices of a secure sum, what they do, and what it reads.

Real devices, each asked by messages of its own, and a server that tells some of them something
else: one field at a time, to all but one person, whose numbers it wants, to one other person, or to
three of ten, whom it then takes for silent. It opens whatever it can. A line says what the devices
did that were told it, of how many people the sum is that was opened, and which share of the one
person's numbers stands in it as they are. With --page no lie is told: the table of that page is
written anew, from what --out wrote here and, of the release before, there.
"""

from collections.abc import Collection
from pathlib import Path

import torch
from lies_of_sums import LIES, Lie
from lying_server import Outcome, outcome
from script import put_rows, read_arguments, rows_in

TINY = ["--people", "4", "--only", "weight, each", "weight", "lr"]
LINES = ("fedavg",)
HEAD = ("method", "field", "told", "to", "roster", "devices", "opened of", "read")
#: Of whether devices have a roster.
ROSTERS = {"without": False, "with": True}
#: What this release's devices did, and those of the release before.
NOW, BEFORE = (Path(__file__).with_name("results") / f"sums-lies{of}.csv" for of in ("", "-before"))
#: To whom it is told.
OTHERS, ONE, SOME = "all but the one", "one other", "three, then taken for silent"


def lied_to(whom: str, number: int) -> Collection[str]:
    """Return the people who are told a lie; the first of all is the victim."""
    others = [f"p{i}" for i in range(2, number + 1)]
    return others if whom == OTHERS else others[:1] if whom == ONE else others[:3]


def lines(number: int, only: Collection[str] = ()) -> list[tuple[Lie, str, str, Outcome]]:
    """Return the outcome of each lie, for each group of people that it can be told to.

    First without a roster, then with one.
    """
    found = []
    for lie in LIES:
        if only and lie.about not in only:
            continue
        for whom in (OTHERS, ONE, SOME):
            told = lied_to(whom, number)
            ignored = told if whom == SOME else ()
            if whom != OTHERS and lie.about not in ("weight", "linear", "run"):
                continue  # what is told to one comes to the same
            for roster, has in ROSTERS.items():
                found.append((lie, whom, roster, outcome(lie, told, number, ignored, has)))
                print(*line(*found[-1]), sep=" | ", flush=True)
    return found


def line(lie: Lie, whom: str, roster: str, of: Outcome) -> tuple[str, ...]:
    """Return a line of the table."""
    read = f"{of.read:.3f}" if of.opened_of else ""
    told = lie.method, lie.about, lie.said, whom, roster
    return (*told, of.devices, str(of.opened_of), read)


def written(page: str) -> str:
    """Return a page with the table of what was told, before and now."""
    now, before = (rows_of(path) for path in (NOW, BEFORE))
    head = "| Method | Told differently | Devices | Before: people in the sum, read |"
    found = [f"{head} Now | With a roster |", "|---|---|---|---|---|---|"]
    for key, (devices, people, _) in now.items():
        *told, roster = key
        named, field, said, whom = told
        if whom == ONE or roster != "without":
            continue
        _, opened_before, read = before.get((*told, ""), ("", "", ""))
        then = "none" if (*told, "") in before else "-"
        if read:
            then = f"{opened_before}, {100 * float(read):.0f} %"
        does = devices.partition(":")[0].partition(" of ")
        acts = "answer" if devices == "answer" else f"{does[0]} of {does[2]}"
        what = f"`{field}`: {said}" + ("" if whom == OTHERS else f", to {whom}")
        _, of_roster, _ = now[*told, "with"]
        opened, signed = (n if int(n) else "none" for n in (people, of_roster))
        found.append(f"| `{named}` | {what} | {acts} | {then} | {opened} | {signed} |")
    first, last = "<!-- sums-lies -->\n", "<!-- /sums-lies -->"
    start, end = page.index(first) + len(first), page.index(last)
    return page[:start] + "\n".join(found) + "\n" + page[end:]


def rows_of(path: Path) -> dict[tuple[str, ...], tuple[str, str, str]]:
    """Return each lie's row in a file of results: devices, people in the sum, share read."""
    found = rows_in(path, HEAD[:5]).items()
    return {key: (row["devices"], row["opened of"], row["read"]) for key, row in found}


def main() -> None:
    """Print what comes of each lie."""
    args = read_arguments(
        TINY,
        people=10,
        only=([], "fields"),
        out=Path,
        page=(Path, "a page in which to write the table anew"),
    )
    if args.page is not None:
        args.page.write_text(written(args.page.read_text("utf-8")), "utf-8")
        return
    torch.set_num_threads(1)
    found = lines(args.people, args.only)
    rows = [dict(zip(HEAD, line(*one), strict=True)) for one in found]
    order = [
        (lie.method, lie.about, lie.said, whom, roster)
        for lie in LIES
        for whom in (OTHERS, ONE, SOME)
        for roster in ROSTERS
    ]
    put_rows(args.out, rows, HEAD[:5], order)


if __name__ == "__main__":
    main()
