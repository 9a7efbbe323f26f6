"""What a run's database notes of the run itself: who trained it, how long, in how much memory."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fedsub_core.models.record import ModelRecord
from fedsub_server.rundb_file import PACKAGE, database_errors, note
from fedsub_server.rundb_open import OpenDatabase

#: In `meta`: how many clients were forgotten.
FORGOTTEN = "forgotten"
#: In `meta`: the most memory that the run's processes held, bytes.
_MEMORY = "peak_memory"
_BACKEND = "backend"
#: In `meta`: what the run's model is, layer by layer.
_MODEL = "model"
#: In `meta`: seconds of the method's own server half, and of how many rounds.
_SERVER = "server_seconds"


class RunNotes(OpenDatabase):
    """The notes in `meta` beside what a run began with."""

    def forgotten(self) -> int:
        """Return the number of clients that were forgotten."""
        return int(self.meta().get(FORGOTTEN, 0))

    def server_seconds(self) -> float | None:
        """Return the mean seconds of the method's own server half in a round.

        None where it is not known, as of a run of an older version.
        """
        seconds, rounds = self._server_seconds()
        return seconds / rounds if rounds else None

    def _server_seconds(self) -> tuple[float, int]:
        seconds, rounds = self.meta().get(_SERVER, "0 0").split()
        return float(seconds), int(rounds)

    def _add_server_seconds(self, seconds: float, rounds: int) -> None:
        """Add what the server half took in some rounds; whoever calls is in a transaction."""
        before = self._server_seconds()
        both = f"{before[0] + seconds:.6f} {before[1] + rounds}"
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SERVER, both))

    def note_memory(self, peak: int) -> None:
        """Keep the most memory that the process held, bytes, if it is more than was kept."""
        most = max(peak, self.memory() or 0)
        with self._writing():
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MEMORY, str(most))
            )

    def memory(self) -> int | None:
        """Return the most memory that the run's processes held, bytes; None where not known."""
        kept = self.meta().get(_MEMORY)
        return None if kept is None else int(kept)

    def seal_anew(self, plain: bool) -> None:
        """Seal the state by the passphrase that is asked for, or make it `plain`, all or nothing.

        Of what stood there before, nothing is left in the file.

        Raises Locked if it is sealed by another passphrase; the database is as it was. Raises
        RunError if it cannot be written; then, too.
        """
        self._connection.execute("PRAGMA secure_delete=ON")
        with self._writing():
            self._state.seal_anew(plain)
        self._state.forget()
        self._vacuum()

    def note_data(self, prints: Mapping[str, str]) -> None:
        """Keep these fingerprints of the run's data in place of those of before."""
        with self._writing():
            config = json.loads(self.meta()["config"]) | prints
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)",
                ("config", json.dumps(config, sort_keys=True)),
            )

    def note_backend(self, backend: str) -> None:
        """Keep the backend that trains, kernels or PyTorch, where it was none or another before."""
        with database_errors(self.path, "written"):
            note(self._connection, _BACKEND, backend)

    def backend(self) -> str | None:
        """Return the backends that trained, in order with commas; None where they are not known."""
        return self.meta().get(_BACKEND)

    def note_model(self, record: ModelRecord) -> None:
        """Keep the record of the run's model, where there is none."""
        text = record.as_json()
        if self.meta().get(_MODEL) != text:
            with self._writing():
                self._connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_MODEL, text)
                )

    def model(self) -> ModelRecord | None:
        """Return the record of the run's model; None if there is none, as of an older release."""
        kept = self.meta().get(_MODEL)
        return None if kept is None else ModelRecord.from_json(kept)

    def trained_by(self) -> str:
        """Return the version and code by which the run was begun, and code by which it went on.

        So too of the package that offers its method, if there is one.
        """
        meta = self.meta()
        package = f" with {meta[PACKAGE]}" if PACKAGE in meta else ""
        return f"{meta['version']} (code {meta['code']}){package}"
