"""A process that has imported what takes long, and forks itself for each program that a test runs.

A fork is a process of its own: what it imports, changes and leaves running ends with it. It spares
a test the seconds in which a new one imports PyTorch.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

#: Takes a line of JSON for each fork; answers by a line with its exit status.
PROGRAM = """
import importlib, json, os, signal, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if (child := os.fork()) == 0:
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(asked[name], os.O_RDWR), number)
        sys.argv = asked["argv"]
        sys.path[0] = os.path.dirname(sys.argv[0])
        signal.alarm(asked["seconds"])
        code, __file__ = 0, sys.argv[0]
        try:
            with open(__file__, "rb") as script:
                # As the main module, in which processes that it spawns look for it.
                exec(compile(script.read(), __file__, "exec"), globals())
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Nursery:
    """Runs Python's programs in forks of a process that has imported some modules already."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        assert answer, "what forks has ended"
        return answer

    def run(
        self,
        program: Path,
        arguments: Sequence[str] = (),
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        seconds: int = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python program arguments``, killed after `seconds`; return what it printed."""
        assert self._process.stdin is not None
        argv = [str(program), *arguments]
        with tempfile.TemporaryDirectory() as folder:
            printed = [Path(folder, name) for name in ("stdout", "stderr")]
            for path in printed:
                path.touch()
            asked: dict[str, object] = {path.name: str(path) for path in printed}
            asked |= {"argv": argv, "cwd": str(cwd), "seconds": seconds, "stdin": os.devnull}
            asked["env"] = dict(os.environ if env is None else env)
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            status = int(self._answer())
            out, err = (path.read_text("utf-8") for path in printed)
        return subprocess.CompletedProcess(argv, status, out, err)


@contextmanager
def nursery(*modules: str, env: Mapping[str, str] | None = None) -> Iterator[Nursery]:
    """Yield a process that has imported `modules`; end it afterwards."""
    command = [sys.executable, "-c", PROGRAM, *modules]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as process:
        # Its input ends with the block, and so does it.
        yield Nursery(process)
