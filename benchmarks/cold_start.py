"""What the command line takes before it answers: CPU time, as a share of that of `import torch`.

Each repetition runs `import torch` and every command (those named, or all that compute nothing), a
process each; of each the median counts. CPU time is the kernel's, user and system.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import click
from script import put_lines, read_arguments

from fedsub.cli import cli

TINY = ["--repeat", "1", "--commands", "methods", "data list"]
LINES = ("import torch ", "fedsub methods ", "fedsub data list ")
PROGRAM = "from fedsub.cli import main; main()"
SHOWN = ("methods", "methods fedsub", "data list", "data show watch", "data show wesad")


def helps(command: click.Command, before: str = "") -> Iterator[str]:
    """Yield the command lines that ask `command`, and each command in it, for help."""
    yield f"{before}--help"
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, f"{before}{name} ")


def cpu_seconds(*arguments: str) -> float:
    """Return the CPU seconds of Python with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    arguments = read_arguments(TINY, repeat=5, commands=[*SHOWN, *helps(cli)], csv=Path)
    contenders = {"import torch": ["import torch"]}
    contenders |= {f"fedsub {words}": [PROGRAM, *words.split()] for words in arguments.commands}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(arguments.repeat):
        for name, program in contenders.items():
            seconds[name].append(cpu_seconds("-c", *program))
    whole = median(seconds["import torch"])
    lines = []
    for name, taken in seconds.items():
        print(f"{name:34}{median(taken):7.3f} s{median(taken) / whole:7.2f} of import torch")
        lines.append((name, f"{median(taken):.3f}", f"{median(taken) / whole:.2f}"))
    put_lines(arguments.csv, ["command", "s", "of import torch"], lines, 1)


if __name__ == "__main__":
    main()
