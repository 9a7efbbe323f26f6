"""CiteSeer: 3,312 papers, 3,703 words, six topics (Sen et al. 2008)."""

from pathlib import Path

from fedsub_data.preparing.preparation import Prepared, Progress
from fedsub_papers.preparing.graphs.linqs import prepare_linqs
from fedsub_papers.preparing.options import GraphOptions

CLASSES = ("Agents", "AI", "DB", "IR", "ML", "HCI")


def prepare(source: Path, options: GraphOptions, workers: int, progress: Progress) -> Prepared:
    """Return CiteSeer, float32 [3312, 3703], as the client ``graph``.

    15 papers that others cite have no words and no topic: they are left out, with their citations.
    """
    return prepare_linqs("citeseer", CLASSES, source, options, progress)
