"""``--json``: a command's result as one JSON document, for scripts.

The document alone stands on standard output; progress, warnings and errors go to standard error.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console

AS_JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="print the result as one JSON document; everything else goes to standard error",
)


def console_beside(as_json: bool) -> Console:
    """Return where a command prints all but its result."""
    return Console(stderr=as_json)


def print_json(value: object) -> None:
    """Print a value as a JSON document; a number that is not finite is null."""
    click.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
