"""The inspection as files: a page to read, the four figures, and the numbers as JSON.

The page is one file: figures inside as data, no script, nothing loaded from anywhere.
"""

import base64
import json
import struct
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from fedsub_core.errors import DataError
from fedsub_core.files import check_new_folder, whole_folder
from fedsub_data.inspection.drawing import DOTS_PER_INCH
from fedsub_data.inspection.html import document, table
from fedsub_data.inspection.inspection import Inspection
from fedsub_data.inspection.plots import figures
from fedsub_data.inspection.tables import (
    ARRIVAL_HEAD,
    CLASS_HEAD,
    arrival_rows,
    class_rows,
    fact_rows,
)

#: What a reader looks for in each figure: heading, and two sentences.
_READING = {
    "class_shares.png": (
        "Who has which classes",
        "Each column is a client and each row a class: the stronger the colour, the larger the "
        "class's share of the client's samples; grey where it has none. Columns that differ are "
        "what one model for all would have to average over.",
    ),
    "samples_per_client.png": (
        "Who has how much",
        "Each bar is a client, in the same order as above. Where a few bars are much longer than "
        "the others, an average weighted by samples follows those few.",
    ),
    "prototype_similarity.png": (
        "How alike people are",
        "Each cell compares two people's mean sample of one class, as standard deviations from "
        "the mean of the federation: red is alike, blue opposite, and people stand in the same "
        "order in every class. Red blocks are people who can learn a class together; blocks that "
        "change from class to class are the reason to share by class and not whole models.",
    ),
    "hopkins.png": (
        "Do samples form clusters",
        "Near 1 the samples of a class, of all people together, form clusters; near 0.5 (dashed) "
        "they lie as random points would. Windows that overlap and features that follow each "
        "other raise it too, so read it beside the figure above.",
    ),
}


def write_inspection(inspection: Inspection, folder: Path | str) -> None:
    """Write report.html, four PNG and inspection.json to a new `folder`, all or nothing.

    Raises DataError where the folder already holds something or cannot be written.
    """
    folder = Path(folder)
    check_new_folder(folder, DataError)
    images = figures(inspection)
    text = json.dumps(inspection.as_dict(), allow_nan=False, ensure_ascii=False)
    with whole_folder(folder, DataError) as draft:
        for name, image in images.items():
            (draft / name).write_bytes(image)
        (draft / "inspection.json").write_text(text + "\n", "utf-8")
        (draft / "report.html").write_text(page(inspection, images), "utf-8")


def page(inspection: Inspection, images: Mapping[str, bytes]) -> str:
    """Return the page as HTML, with `images` (PNG by file name) inside."""
    card = inspection.card
    warnings = "".join(f"<p>{escape(text)}</p>" for text in inspection.warnings)
    parts = [
        f"<h1>{escape(card.name)}</h1>",
        f"<p>{escape(card.task)}: {len(inspection.clients)} clients, "
        f"{inspection.counts.sum():,} samples, {len(card.classes)} classes.</p>",
        f'<div class="warning"><h2>Mind before a run</h2>{warnings}</div>' if warnings else "",
        "<h2>The federation</h2>",
        table((), fact_rows(inspection)),
        "<h2>Classes</h2>",
        table(CLASS_HEAD, class_rows(inspection)),
        *_arrivals(inspection),
        *(_figure(name, image, inspection) for name, image in images.items()),
        "<details><summary>Samples of each client and class, as a table</summary>",
        table(("client", *card.classes, "all", "repeated", "split"), _clients(inspection)),
        "</details>",
    ]
    body = "\n".join(part for part in parts if part)
    return document(f"{card.name}: a look at the federation", f"<main>\n{body}\n</main>")


def _clients(inspection: Inspection) -> Iterable[tuple[str, ...]]:
    rows = zip(
        inspection.clients,
        inspection.counts,
        inspection.repeated.tolist(),
        inspection.splits,
        strict=True,
    )
    for client, counts, repeated, split in rows:
        yield (client, *(f"{n:,}" for n in counts), f"{counts.sum():,}", f"{repeated:,}", split)


def _arrivals(inspection: Inspection) -> list[str]:
    if not inspection.arrivals:
        return []
    intro = "<p>Some clients gain samples during a run: how many exist from which round on.</p>"
    rows = table(ARRIVAL_HEAD, arrival_rows(inspection))
    return ["<h2>Samples that arrive later</h2>", intro, rows]


def _figure(name: str, image: bytes, inspection: Inspection) -> str:
    heading, reading = _READING[name]
    data = base64.b64encode(image).decode("ascii")
    # As wide as drawn, at the 96 dots an inch of CSS: texts of all figures then have one size.
    width, height = (
        round(dots * 96 / DOTS_PER_INCH) for dots in struct.unpack(">2I", image[16:24])
    )
    size = f"{len(inspection.clients)} clients, {len(inspection.card.classes)} classes"
    alt = f"{heading}: {size}. The numbers are in the tables and in inspection.json."
    return (
        f"<h2>{heading}</h2>\n<p>{reading}</p>\n"
        f'<img width="{width}" height="{height}" alt="{alt}" src="data:image/png;base64,{data}">'
    )
