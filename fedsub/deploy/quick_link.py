"""A SuperLink's database that is asked for less, so that it serves more devices.

Flower asks it anew for what does not change between two calls of a device: whether tokens of tasks
have expired (a write), whether the run goes on, whose key it is, how many bytes came (a write),
whether there is a message (a write). Here that is held in memory for a moment. Nothing that was
answered for is held back: messages, replies and objects are in the database before that is said,
as they are with Flower's.

Who writes waits for who writes already. Flower waits 5 s, then says "database is locked", on which
its SuperExec ends and the run fails: a slow disk under load is enough. Here it waits a minute.
"""

import threading
import time
from collections import Counter, defaultdict
from typing import Any

from fedsub_core.errors import RunError
from fedsub_core.flower.linkstate import RunStatus, SqlLinkState, Status, add_indices
from fedsub_core.flower.superlink import database

#: Seconds that a write waits for others.
LOCK_SECONDS = 60
#: Seconds for which it is held that tokens were looked through, that a run goes on, and what came.
MOMENT = 1.0
#: Seconds for which it is held whose key it is; one that is revoked here is refused at once.
KEY_SECONDS = 5.0
#: Seconds for which it is held that a node has no message; one that is stored here ends that.
NOTE_SECONDS = 60.0
#: Columns by which Flower looks up rows without an index, by table.
INDICES = {"object_children": "child_id", "run_objects": "object_id", "message_ins": "dst_node_id"}


def wait_for_locks() -> None:
    """Have the SuperLink's databases that are opened from now on wait LOCK_SECONDS for a lock.

    Raises RunError if Flower no longer opens them as it did.
    """
    sql = database("SQLITE_PRAGMAS", "create_engine")
    pragmas = dict(sql.SQLITE_PRAGMAS)
    if "busy_timeout" not in pragmas:
        raise RunError(f"flwr: got pragmas {pragmas} without a busy_timeout")
    pragmas["busy_timeout"] = str(LOCK_SECONDS * 1000)
    sql.SQLITE_PRAGMAS = tuple(pragmas.items())
    create_engine = sql.create_engine

    def patient_engine(url: str, **keys: Any) -> Any:
        # Those who wait hold the few connections there are: who needs one must wait as long. A
        # database in memory has one connection, and nothing to wait for.
        if "poolclass" not in keys:
            keys["pool_timeout"] = LOCK_SECONDS
        return create_engine(url, **keys)

    sql.create_engine = patient_engine


class EmptyBoxes:
    """The nodes for which no message waits, as was seen in the last NOTE_SECONDS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored = Counter[int]()
        self._empty: defaultdict[int, dict[int | None, float]] = defaultdict(dict)

    def is_empty(self, node: int, run: int | None) -> bool:
        """Whether a node has no message of a run; None: of none at all."""
        with self._lock:
            seen = self._empty.get(node, {}).get(run)
        return seen is not None and time.monotonic() - seen < NOTE_SECONDS

    def begin(self, node: int) -> int:
        """Return the number of messages stored for a node, before the database is asked."""
        with self._lock:
            return self._stored[node]

    def note_empty(self, node: int, run: int | None, begun: int) -> None:
        """Note that none was found; not if one has been stored since :meth:`begin`."""
        with self._lock:
            if self._stored[node] == begun:
                self._empty[node][run] = time.monotonic()

    def note_stored(self, node: int) -> None:
        """Note that a message was stored for a node: it can be read by now."""
        with self._lock:
            self._stored[node] += 1
            self._empty.pop(node, None)


class QuickLinkState(SqlLinkState):
    """Flower's state in a database, with what does not change held for a moment."""

    #: What of Flower's is replaced.
    REPLACED = (
        "initialize",
        "_cleanup_expired_task_tokens",
        "_on_task_tokens_expired",
        "get_run_status",
        "get_run_info",
        "finish_task",
        "store_traffic",
        "get_node_id_by_public_key",
        "delete_node",
        "_claim_message_ins_rows",
        "store_message_ins",
        "store_message_and_object_tree",
    )

    def __init__(self, *arguments: Any, **keys: Any) -> None:
        super().__init__(*arguments, **keys)
        self._cleaned_at = self._summed_at = float("-inf")
        self._running: dict[int, tuple[float, RunStatus]] = {}
        self._nodes: dict[bytes, tuple[float, int]] = {}
        self._deleted = 0
        self._traffic: Counter[tuple[int, str]] = Counter()
        self._lock, self._boxes = threading.Lock(), EmptyBoxes()

    def initialize(self, *arguments: Any, **keys: Any) -> list[str]:
        """Open the database, and add the indices that it lacks."""
        tables = super().initialize(*arguments, **keys)
        add_indices(self, {table: name for table, name in INDICES.items() if table in tables})
        return tables

    def _cleanup_expired_task_tokens(self) -> None:
        if time.monotonic() - self._cleaned_at >= MOMENT:
            self._cleaned_at = time.monotonic()
            super()._cleanup_expired_task_tokens()

    def _on_task_tokens_expired(self, tasks: list[Any]) -> None:
        super()._on_task_tokens_expired(tasks)
        self._running.clear()

    def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
        """Finish a task; a run of which it is known that it goes on may have ended with it."""
        finished: bool = super().finish_task(task_id, sub_status, details)
        self._running.clear()
        return finished

    def get_run_status(self, run_ids: set[int]) -> dict[int, RunStatus]:
        """Return the status of runs; of one that goes on, as it was a moment ago."""
        now, held = time.monotonic(), dict(self._running)
        known = {
            run: held[run][1] for run in run_ids if run in held and now - held[run][0] < MOMENT
        }
        if known.keys() == set(run_ids):
            return known
        found: dict[int, RunStatus] = super().get_run_status(run_ids)
        running = {run: (now, one) for run, one in found.items() if one.status == Status.RUNNING}
        self._running |= running
        return found

    def get_run_info(self, **keys: Any) -> Any:
        """Return runs, with all the bytes that came."""
        self._write_traffic()
        return super().get_run_info(**keys)

    def store_traffic(self, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
        """Add bytes to a run's sums, which are written once in a moment.

        Raises ValueError if one is negative or both are zero. Bytes of a run that is gone are
        dropped.
        """
        if min(bytes_sent, bytes_recv) < 0 or max(bytes_sent, bytes_recv) == 0:
            super().store_traffic(run_id, bytes_sent=bytes_sent, bytes_recv=bytes_recv)
        with self._lock:
            self._traffic[run_id, "bytes_sent"] += bytes_sent
            self._traffic[run_id, "bytes_recv"] += bytes_recv
        if time.monotonic() - self._summed_at >= MOMENT:
            self._write_traffic()

    def _write_traffic(self) -> None:
        with self._lock:
            self._summed_at = time.monotonic()
            sums, self._traffic = self._traffic, Counter()
        for run in {run for run, _ in sums}:
            both = {name: sums[run, name] for name in ("bytes_sent", "bytes_recv")}
            try:
                super().store_traffic(run, **both)
            except ValueError:  # the run is gone: its bytes are nobody's
                continue
            except Exception:  # as of a locked database: they are written next time
                with self._lock:
                    self._traffic.update({(run, name): count for name, count in both.items()})

    def get_node_id_by_public_key(self, public_key: bytes) -> int | None:
        """Return the node of a key, as it was in the last KEY_SECONDS; None for no such."""
        now = time.monotonic()
        since, node = self._nodes.get(public_key, (float("-inf"), 0))
        if now - since < KEY_SECONDS:
            return node
        begun = self._deleted
        found: int | None = super().get_node_id_by_public_key(public_key)
        with self._lock:
            if found is None:
                self._nodes.pop(public_key, None)
            elif begun == self._deleted:  # else it may be of a node that is gone meanwhile
                self._nodes[public_key] = now, found
        return found

    def delete_node(self, owner_aid: str, node_id: int) -> None:
        """Unregister a node; its key is refused from now on."""
        super().delete_node(owner_aid, node_id)
        with self._lock:
            self._deleted += 1
            self._nodes.clear()

    def _claim_message_ins_rows(
        self, node_id: int, limit: int | None, run_id: int | None = None
    ) -> list[dict[str, Any]]:
        if self._boxes.is_empty(node_id, run_id):
            return []
        begun = self._boxes.begin(node_id)
        rows: list[dict[str, Any]] = super()._claim_message_ins_rows(node_id, limit, run_id)
        if not rows:
            self._boxes.note_empty(node_id, run_id, begun)
        return rows

    def store_message_ins(self, message: Any) -> str | None:
        """Store a message to a node."""
        stored: str | None = super().store_message_ins(message)
        self._note_stored(message)
        return stored

    def store_message_and_object_tree(
        self, message: Any, object_tree: Any, session_id: str
    ) -> tuple[bool, list[str]]:
        """Store a message and what it is made of; only then can others read it."""
        stored: tuple[bool, list[str]] = super().store_message_and_object_tree(
            message, object_tree, session_id
        )
        self._note_stored(message)
        return stored

    def _note_stored(self, message: Any) -> None:
        if not message.metadata.reply_to_message_id:
            self._boxes.note_stored(message.metadata.dst_node_id)
