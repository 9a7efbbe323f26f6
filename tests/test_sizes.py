"""Files and functions of a size that a reader takes in at once."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core")
MOST_LINES, MOST_IN_FUNCTION, MOST_PARAMETERS = 250, 60, 8
#: Files that are longer, as splitting them made them harder to read. At most five.
LONGER = {
    "fedsub_core/secure/participant.py",
    "strategies/strategy.py",
}


def sources() -> dict[str, str]:
    """Return the text of each file that is not generated, by path."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    texts = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}
    return {path: text for path, text in texts.items() if not path.endswith("_pb2.py")}


def test_files_are_short() -> None:
    longer = {path for path, text in sources().items() if text.count("\n") > MOST_LINES}
    assert longer == LONGER and len(LONGER) <= 5


def test_functions_are_short_and_take_few_arguments() -> None:
    too_much = []
    for path, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                of_caller = [one for one in given if one.arg not in ("self", "cls")]
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > MOST_IN_FUNCTION or len(of_caller) > MOST_PARAMETERS:
                    too_much.append(f"{path}: {node.name}: {lines} lines, {len(of_caller)} given")
    assert too_much == []
