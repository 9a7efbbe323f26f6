"""What the files of a run's folder are called, and how many bytes something is, in words."""

from __future__ import annotations

RUN_FILE, SUMMARY_FILE = "run.toml", "summary.json"
DATABASE_FILE, METRICS_FILE, MODELS = "state.db", "metrics.csv", "models"
#: Of a method's secure sums, what devices can check; its key lies beside it.
TRANSCRIPT_FILE = "transcript.jsonl"


def humanise_bytes(count: float) -> str:
    """Return bytes in the unit (powers of 1024) that leaves 1 to 1023 of them, as ``272.0 KiB``."""
    power = 0
    # 1023.95 would be printed as 1024.0.
    while count >= 1023.95 and power < 4:
        count, power = count / 1024, power + 1
    return f"{count:.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}" if power else f"{count:.0f} B"
