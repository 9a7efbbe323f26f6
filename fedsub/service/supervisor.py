"""The supervisor of a service: it submits runs when rounds are due, and again after any failure.

All that it knows is in the service's file, the run's database and the SuperLink. So a supervisor
that is killed and started again goes on from where the other was, also between the two halves of a
step: a start is noted before it is submitted, and a run that nobody noted is known by its folder.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from fedsub.service.gate import BEGIN, CHECK, WAIT, Seen, moment, next_step
from fedsub.service.schedule import Schedule
from fedsub.service.service_folder import finished_rounds, read_app
from fedsub.service.state import RUN, ServiceFile, ServiceState, Settings
from fedsub.service.superlink_port import Port
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import FedSubError, cut
from fedsub_core.flower.control import LinkNode, LinkRun
from fedsub_core.options import Value
from fedsub_server.live_file import read_live
from fedsub_server.members import is_elsewhere, read_members

log = logging.getLogger("fedsub")

#: Seconds between two looks.
LOOK_SECONDS = 3.0
#: Devices that are enough for whatever is due.
_ENOUGH = 10**9
#: Seconds by which a clock may go back and count as the same.
CLOCK_SECONDS = 60.0
UNREGISTERED, ONLINE = "unregistered", "online"
COMPLETED, STOPPED = "finished:completed", "finished:stopped"


class ServiceSupervisor:
    """Keeps the federation of a service's file going.

    Parameters
    ----------
    file : the service's.
    port : of the SuperLink.
    clock : seconds since 1970.
    """

    def __init__(
        self, file: ServiceFile, port: Callable[[Settings], Port], clock: Callable[[], float]
    ) -> None:
        self.file, self.make_port, self.clock = file, port, clock
        self.run_folder, self._failure = file.folder / RUN, ""

    def serve(self, wait: Callable[[float], None]) -> None:
        """Look after the federation until `wait`, which waits for seconds, raises.

        Nothing else ends it: what fails is logged, shown, and tried again.
        """
        while True:
            try:
                self.look()
            except (FedSubError, OSError) as error:
                self._say_failed(cut(error))
            wait(LOOK_SECONDS)

    def look(self) -> None:
        """Look once, and do what is due."""
        now, settings = self.clock(), self.file.settings
        if now < self.file.state.created - CLOCK_SECONDS:
            self._say(f"the clock says {moment(now):%Y-%m-%d}, before the service was made: set it")
            return
        self._follow_clock(now)
        config, state = self._config(settings), self.file.state
        schedule, finished = Schedule.parse(settings.when), finished_rounds(self.run_folder, config)
        if not state.target:
            # A SuperLink has better things to do than to be asked all night.
            fresh = self._fresh()
            early = next_step(schedule, state, Seen(finished, _ENOUGH, 0, fresh), now)
            if early.do == WAIT:
                self._say(early.why, early.at)
                return
        port = self.make_port(settings)
        nodes: Sequence[LinkNode] | None = None
        runs: Sequence[LinkRun] = ()
        try:
            nodes, runs = port.look(state.run)
        except FedSubError as error:
            if state.run or state.target:
                self._say(f"the SuperLink does not answer: {cut(error)}")
                return
        going = next((run for run in runs if not run.status.startswith("finished")), None)
        if going is not None:
            # Also where it was submitted and not noted, or by hand: two would disturb each other.
            if going.run != state.run:
                self.file.put(run=going.run)
            if state.stop:
                port.stop(going.run)
                self.file.put(stop=False)
            self._say(f"run {going.run} is {going.status}")
            return
        if state.target:
            finished = finished_rounds(self.run_folder, config)
            self._settle(state, runs, finished, now)
        state = self.file.state
        step = next_step(schedule, state, self._seen(config, nodes, finished), now)
        if step.do == WAIT:
            self._say(step.why, step.at)
            return
        if step.do in (BEGIN, CHECK):
            checks = step.do == CHECK
            self.file.begin_start(now, finished + (0 if checks else settings.each), checks)
        self._submit(port, settings, now)

    def _settle(
        self, state: ServiceState, runs: Sequence[LinkRun], finished: int, now: float
    ) -> None:
        """Take note of how a start's run has ended."""
        own = next((run for run in runs if run.run == state.run), None)
        completed = own is not None and own.status == COMPLETED
        if (completed and state.checks) or (not state.checks and finished >= state.target):
            self.file.end_start(now, {} if state.checks else self._counts())
        elif state.paused and own is not None and own.status == STOPPED:
            self.file.put(run=0)
        elif state.run:
            why = "the SuperLink does not know it" if own is None else self._why(own, state)
            self._failed(f"run {state.run}: {why}", now)

    def _submit(self, port: Port, settings: Settings, now: float) -> None:
        state = self.file.state
        self.file.put(submitted=now, tries=state.tries + 1)
        keys: dict[str, Value] = {**settings.keys, "folder": str(self.run_folder)}
        keys["rounds"] = state.target
        if state.checks:
            keys["min-clients"] = 1
        try:
            run = port.submit(keys)
        except FedSubError as error:
            self._failed(f"not submitted: {cut(error)}", now)
            return
        self.file.put(run=run)
        what = "devices are asked for new samples" if state.checks else f"round {state.target}"
        self._say(f"run {run} is submitted: {what}")

    def _failed(self, why: str, now: float) -> None:
        failures = self.file.state.failures + 1
        self.file.put(run=0, failures=failures, failed_at=now, failure=why)
        log.warning("service %s: %s", self.file.folder, why)

    def _why(self, run: LinkRun, state: ServiceState) -> str:
        """Return why a run ended before its rounds were done, as whoever ended it says."""
        live = read_live(self.run_folder) or {}
        written, ended = live.get("written"), live.get("ended")
        fresh = isinstance(written, int | float) and written >= state.submitted
        told = ended if fresh and isinstance(ended, str) and ended != "finished" else run.details
        return f"{run.status}{f': {cut(told)}' if told else ''}"

    def _seen(self, config: RunConfig, nodes: Sequence[LinkNode] | None, finished: int) -> Seen:
        if nodes is None:
            return Seen(finished, None, config.min_clients)
        members = read_members(self.run_folder)
        known = [
            node
            for node in nodes
            if node.status != UNREGISTERED and not is_elsewhere(node.name, members)
        ]
        # As for the run itself: who is gone for good is not waited for.
        needed = max(1, min(config.min_clients, len(known)))
        if not finished:
            needed = config.min_clients
        connected = sum(node.status == ONLINE for node in known)
        return Seen(finished, connected, needed, self._fresh())

    def _fresh(self) -> int:
        """Return the number of people who have more samples than in their last round."""
        before = self.file.samples()
        return sum(count > before.get(client, 0) for client, count in self._counts().items())

    def _counts(self) -> dict[str, int]:
        """Return the number of each person's samples, as the devices said last."""
        people = (read_live(self.run_folder) or {}).get("people")
        each = people.items() if isinstance(people, Mapping) else ()
        counts = {client: own.get("examples") for client, own in each if isinstance(own, Mapping)}
        return {client: count for client, count in counts.items() if isinstance(count, int)}

    def _config(self, settings: Settings) -> RunConfig:
        return read_app(self.file.folder, settings.keys)

    def _follow_clock(self, now: float) -> None:
        """Take what was noted by a clock that went ahead for a thing of now."""
        state = self.file.state
        names = ("begun", "checked", "failed_at")
        later = {name: now for name in names if getattr(state, name) > now + CLOCK_SECONDS}
        if later:
            self.file.put(**later)

    def _say_failed(self, why: str) -> None:
        """Log once what went wrong, and note it if that is possible: the disk may be full."""
        if why != self._failure:
            log.warning("service %s: %s", self.file.folder, why)
        self._failure = why
        with suppress(FedSubError):
            self.file.put(why=why, next_at=0.0)

    def _say(self, why: str, at: float | None = None) -> None:
        """Note for who asks what is waited for, and log it once."""
        state = self.file.state
        if (why, at or 0.0) != (state.why, state.next_at):
            self.file.put(why=why, next_at=at or 0.0)
            until = f", until {datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}" if at else ""
            log.warning("service %s: %s", self.file.folder, f"{why}{until}")
