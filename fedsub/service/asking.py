"""Acts as a command asks for them: in a folder of this machine, or at a service's endpoint."""

import json
import os
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from fedsub.deploy.codes import checked_url
from fedsub.service.acts import perform
from fedsub.service.state import ServiceFile
from fedsub.service.tokens import owner_of_files
from fedsub_core.errors import ConfigError, RunError, cut

#: The environment variable of a token; who has none acts as who owns the files.
TOKEN = "FEDSUB_TOKEN"
#: Seconds in which an endpoint has to answer, and bytes of its answer at most.
ANSWER_SECONDS, MOST_BYTES = 30.0, 2**16


def perform_here(folder: str, act: str, arguments: Mapping[str, Any]) -> str:
    """Perform an act on the service in a folder; raises as :func:`~fedsub.service.acts.perform`."""
    with ServiceFile(Path(folder)) as file:
        return perform(file, os.environ.get(TOKEN) or owner_of_files(), act, arguments)


def ask(url: str, ca: Path | None, act: str, arguments: Mapping[str, Any]) -> str:
    """Have an act performed by the endpoint at `url`, and return its answer.

    Raises ConfigError if there is no token, or the URL is none with https, a host and a port.
    Raises RunError if it is refused, or nobody answers.
    """
    if not (code := os.environ.get(TOKEN, "")):
        raise ConfigError(f"{url}: got no token, expected one in {TOKEN}")
    body = json.dumps({"act": act, "arguments": dict(arguments)}).encode()
    headers = {"Authorization": f"Bearer {code}", "Content-Type": "application/json"}
    request = Request(f"{checked_url(url)}/v1/acts", body, headers)
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    try:
        with urlopen(request, timeout=ANSWER_SECONDS, context=context) as response:
            return str(json.loads(response.read(MOST_BYTES))["answer"])
    except HTTPError as error:
        text = error.read(MOST_BYTES).decode("utf-8", "replace").strip()
        with suppress(ValueError, KeyError, TypeError):
            text = json.loads(text)["refused"]
        raise RunError(f"{url}: refused: {cut(text)}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{url}: got no answer of a service ({cut(error)})") from error
