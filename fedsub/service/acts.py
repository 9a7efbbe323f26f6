"""Acts on a service, checked at one border, whoever takes them: the command line or the endpoint.

An act and its line in the audit log are one transaction. A refused act changes nothing but the log.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsub.service.audit import DONE, note_act
from fedsub.service.facts import is_served, service_lines
from fedsub.service.schedule import Schedule
from fedsub.service.service_folder import finished_rounds, read_app
from fedsub.service.state import RUN, ServiceFile
from fedsub.service.tokens import (
    OPERATOR,
    OWNER,
    READER,
    ActRefused,
    Caller,
    caller_of,
    make_token,
    revoke_token,
)
from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.errors import ConfigError, FedSubError, cut

#: Keys of a run that may be set while the federation goes on; of these, what only an owner may.
RUN_KEYS = (
    "round-timeout",
    "quorum",
    "min-clients",
    "join-timeout",
    "evaluate-every",
    "identity",
    "standardise-anew",
)
OWNERS_KEYS = ("identity", "superlink", "ca")
KEYS = ("when", "each", "superlink", "ca", *RUN_KEYS)
#: The act of looking: it stands in the log only where it is refused.
READ = "read"
#: Rounds that a start may train at most.
MOST_ROUNDS = 10_000

Arguments = Mapping[str, Any]


def pause(file: ServiceFile, arguments: Arguments) -> str:
    """Let no round begin; with `now` the one that goes on is stopped, and later repeated."""
    _only(arguments, "now")
    stop = arguments.get("now") is True
    file.put(paused=True, stop=stop)
    goes_on = "is stopped, and repeated later" if stop else "finishes its rounds"
    return f"paused: nothing begins; a start that goes on {goes_on}"


def resume(file: ServiceFile, arguments: Arguments) -> str:
    """Let rounds begin again, and try at once what failed."""
    _only(arguments)
    file.put(paused=False, stop=False, failures=0)
    return "resumed"


def set_keys(file: ServiceFile, arguments: Arguments) -> str:
    """Change settings: the schedule, rounds of a start, patience."""
    _only(arguments, *KEYS)
    if not arguments:
        raise ConfigError(f"set: got nothing, expected KEY=VALUE of {', '.join(KEYS)}")
    changed: dict[str, Any] = {}
    texts = {key: str(value) for key, value in arguments.items()}
    if "when" in texts:
        changed["when"] = Schedule.parse(texts["when"]).text
    if "each" in texts:
        changed["each"] = _each(texts["each"])
    if texts.get("ca") and not Path(texts["ca"]).is_absolute():
        expected = "a path on the server that begins with /"
        raise ConfigError(f"ca: got {cut(texts['ca'])!r}, expected {expected}")
    if "superlink" in texts and not re.fullmatch(r"\S+:\d{1,5}", texts["superlink"]):
        raise ConfigError(f"superlink: got {cut(texts['superlink'])!r}, expected HOST:PORT")
    changed |= {key: texts[key] for key in ("superlink", "ca") if key in texts}
    if keys := {key: texts[key] for key in RUN_KEYS if key in texts}:
        typed = to_flat(read_config(None, keys))
        changed["keys"] = {**file.settings.keys, **{key: typed[key] for key in keys}}
        before = read_app(file.folder, file.settings.keys).standardise_anew
        config = read_app(file.folder, changed["keys"])  # they must fit the others, too
        # A start that goes on has the keys of before.
        over = max(finished_rounds(file.folder / RUN, config), file.state.target)
        if before != (anew := config.standardise_anew) and 0 < anew <= over:
            expected = f"a round after {over}, which is finished or goes on, or 0"
            raise ConfigError(f"standardise-anew: got round {anew}, expected {expected}")
    file.put(**changed)
    return "set: " + ", ".join(f"{key}={value}" for key, value in texts.items())


def new_token(file: ServiceFile, arguments: Arguments) -> str:
    """Make a token, and return its code."""
    _only(arguments, "name", "role", "days")
    try:
        days = float(arguments.get("days", 0))
    except (TypeError, ValueError, OverflowError):
        days = 0.0
    return make_token(file, str(arguments.get("name", "")), str(arguments.get("role", "")), days)


def revoke(file: ServiceFile, arguments: Arguments) -> str:
    """Let nobody act with a token any more."""
    _only(arguments, "name")
    revoke_token(file, str(arguments.get("name", "")))
    return f"revoked: {arguments['name']}"


def look(file: ServiceFile, arguments: Arguments) -> str:
    """Return the schedule, the next round, the last starts and the last failure, in lines."""
    _only(arguments)
    return "\n".join(service_lines(file, is_served(file.folder)))


@dataclass(frozen=True)
class _Kind:
    role: str
    perform: Callable[[ServiceFile, Arguments], str]


ACTS = {
    READ: _Kind(READER, look),
    "pause": _Kind(OPERATOR, pause),
    "resume": _Kind(OPERATOR, resume),
    "set": _Kind(OPERATOR, set_keys),
    "token": _Kind(OWNER, new_token),
    "revoke": _Kind(OWNER, revoke),
}


def perform(file: ServiceFile, who: Caller | str, act: str, arguments: Arguments) -> str:
    """Perform an act, and return its answer; both its effect and its line in the log, or neither.

    Parameters
    ----------
    who : the caller, or the code of a token.

    Raises ActRefused if the token is none, has ended, or its role is too low; or there is no such
    act. Raises ConfigError or RunError if an argument cannot be used.
    """
    caller = who if isinstance(who, Caller) else None
    try:
        with nullcontext() if act == READ else file.change():
            if not isinstance(who, Caller):
                caller = caller_of(file, who, act)
            assert caller is not None
            _check(caller, act, arguments)
            answer = ACTS[act].perform(file, arguments)
            if act != READ:
                note_act(file, caller.name, caller.role, act, arguments, DONE)
        return answer
    except FedSubError as error:
        name = error.who if isinstance(error, ActRefused) else ""
        known = caller.name if caller else name or "(unknown)"
        with file.change():
            role = caller.role if caller else ""
            note_act(file, known, role, act, arguments, f"refused: {cut(error)}")
        raise


def _check(caller: Caller, act: str, arguments: Arguments) -> None:
    """Refuse an act that is none, or that this role may not do."""
    if act not in ACTS:
        raise ActRefused(404, cut(act), caller.name, "no such act", f"one of {', '.join(ACTS)}")
    needs = ACTS[act].role
    if act == "set" and set(arguments) & set(OWNERS_KEYS):
        needs = OWNER
    if not caller.may(needs):
        got = f"{caller.name!r}, whose role is {caller.role}"
        raise ActRefused(403, act, caller.name, got, f"the role {needs}")


def _only(arguments: Arguments, *keys: str) -> None:
    if wrong := sorted(map(str, set(arguments) - set(keys))):
        expected = f"one of {', '.join(keys)}" if keys else "none"
        raise ConfigError(f"{cut(wrong[0])}: got a key that cannot be changed, expected {expected}")


def _each(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < number <= MOST_ROUNDS:
        raise ConfigError(f"each: got {cut(text)!r}, expected 1 to {MOST_ROUNDS} rounds")
    return number
