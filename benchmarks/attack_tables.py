"""The tables of `attacks.py`'s numbers, in Markdown: points of macro F1 that the others lose.

Points are means over seeds of what the others reach with nobody hostile less what they reach under
the attack; below 0 they gain. Of an attack that made-up samples make no worse they are not named.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import fmean

HEAD = ["method", "attack", "robust", "malicious", "seed", "macro_f1", "backdoor"]
NOBODY, CLAIMING = "nobody", ", samples"
Key = tuple[str, str, str, int, int]


@dataclass(frozen=True)
class Damage:
    """What an attack costs.

    Parameters
    ----------
    points : lost in each seed whose run came to its end, and whose calm run is known.
    ended : runs that the attack ended.
    """

    points: tuple[float, ...]
    ended: int = 0

    @property
    def mean(self) -> float:
        """The points lost in the mean; NaN where all runs ended."""
        return fmean(self.points) if self.points else nan

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + (f" ({self.ended} ended)" if self.ended else "")


def read(paths: Sequence[Path]) -> dict[Key, tuple[str, str]]:
    """Return macro F1 and the backdoor's share as they stand, empty where the run ended."""
    found: dict[Key, tuple[str, str]] = {}
    for path in paths:
        with path.open(newline="") as file:
            for method, attack, robust, malicious, seed, f1, fell in list(csv.reader(file))[1:]:
                found[method, attack, robust, int(malicious), int(seed)] = f1, fell
    return found


def damages(lines: dict[Key, tuple[str, str]]) -> dict[tuple[str, str], dict[str, Damage]]:
    """Return the damage of each attack, by method and defence, then by attack."""
    points, ended = defaultdict[Key, list[float]](list), defaultdict[Key, int](int)
    for (method, attack, robust, malicious, seed), (f1, _) in lines.items():
        calm = lines.get((method, NOBODY, robust, malicious, seed))
        if attack == NOBODY or calm is None:
            continue
        key = (method, attack, robust, malicious, 0)
        points[key] += [100 * (float(calm[0]) - float(f1))] if f1 else []
        ended[key] += not f1
    found: dict[tuple[str, str], dict[str, Damage]] = defaultdict(dict)
    for key, ends in ended.items():
        method, attack, robust, *_ = key
        found[method, robust][attack] = Damage(tuple(points[key]), ends)
    return found


def by_method(lines: dict[Key, tuple[str, str]], robust: str) -> Iterator[str]:
    """Yield the table of each method's worst attacks under one defence."""
    yield "| method | seeds | nobody: macro F1 | worst | | second | | mean | runs ended |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (method, of), attacks in sorted(damages(lines).items()):
        if of != robust:
            continue
        calm = [float(f1) for key, (f1, _) in lines.items() if key[:3] == (method, NOBODY, robust)]
        worst = sorted(_worse(attacks).items(), key=lambda one: -one[1].mean)
        shown = " | ".join(f"{name} | {damage.mean:.1f}" for name, damage in worst[:2])
        mean = fmean(damage.mean for damage in attacks.values() if damage.points)
        ended = sum(damage.ended for damage in attacks.values())
        yield f"| {method} | {len(calm)} | {fmean(calm):.3f} | {shown} | {mean:.1f} | {ended} |"


def beyond(lines: dict[Key, tuple[str, str]], robust: str, most: float = 2.0) -> Iterator[str]:
    """Yield the table of attacks that cost over `most` points or end runs, by all defences."""
    found = damages(lines)
    others = sorted({of for _, of in found} - {robust})
    yield "| method | attack | seeds | `" + "` | `".join([robust, *others]) + "` |"
    yield "|---|---|---|---|" + len(others) * "---|"
    for (method, of), attacks in sorted(found.items()):
        for attack, damage in _worse(attacks).items() if of == robust else ():
            if damage.ended or damage.mean > most:
                rest = [found.get((method, other), {}).get(attack, "") for other in others]
                cells = [method, attack, len(damage.points) + damage.ended, damage, *rest]
                yield "| " + " | ".join(map(str, cells)) + " |"


def write(lines: dict[Key, tuple[str, str]], path: Path) -> None:
    """Write lines as they were read, sorted."""
    with path.open("w", newline="") as file:
        sheet = csv.writer(file, lineterminator="\n")
        sheet.writerow(HEAD)
        sheet.writerows([*key, *of] for key, of in sorted(lines.items()))


def _worse(attacks: dict[str, Damage]) -> dict[str, Damage]:
    """Return the attacks without those that are another one with made-up samples, and no worse."""
    found = {}
    for name, damage in attacks.items():
        alone = attacks.get(name.removesuffix(CLAIMING)) if name.endswith(CLAIMING) else None
        if not alone or damage.ended > alone.ended or damage.mean > alone.mean + 0.1:
            found[name] = damage
    return found
