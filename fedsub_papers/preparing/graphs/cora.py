"""Cora: 2,708 papers on machine learning, 1,433 words, seven topics (Sen et al. 2008)."""

from pathlib import Path

from fedsub_data.preparing.preparation import Prepared, Progress
from fedsub_papers.preparing.graphs.linqs import prepare_linqs
from fedsub_papers.preparing.options import GraphOptions

CLASSES = (
    "Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods",
    "Reinforcement_Learning", "Rule_Learning", "Theory",
)  # fmt: skip


def prepare(source: Path, options: GraphOptions, workers: int, progress: Progress) -> Prepared:
    """Return Cora, float32 [2708, 1433], as the client ``graph``."""
    return prepare_linqs("cora", CLASSES, source, options, progress)
