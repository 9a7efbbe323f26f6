"""PACS: 9,991 pictures of seven things in four styles, 227 x 227 (Li et al., ICCV 2017)."""

from pathlib import Path

import numpy as np

from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_papers.preparing.options import PACSOptions
from fedsub_papers.preparing.pictures.encoded import decoded, dimensions, picture_files
from fedsub_papers.preparing.pictures.parts import Part, federation_of

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
_EXPECTED = f"folders {', '.join(DOMAINS)}, each with {CLASSES[0]} to {CLASSES[-1]}"


def prepare(source: Path, options: PACSOptions, workers: int, progress: Progress) -> Prepared:
    """Return PACS, uint8 [n, 3, size, size], whose domains are the clients.

    Parameters
    ----------
    source : the folder that holds the four domains' folders, at any depth, or a zip of it.

    Raises DataError where a domain is missing, a folder in one is no class, a picture is damaged or
    of another size than the first.
    """
    wanted = rf"(?:{'|'.join(DOMAINS)})/[^/]+/[^/]+\.(?:jpe?g|png)"
    with picture_files(source, wanted, _EXPECTED) as (names, read):
        official = dimensions(read(names[0]), f"{source}/{names[0]}")
        places: dict[str, list[tuple[str, int]]] = {domain: [] for domain in DOMAINS}
        for name in names:
            domain, thing = name.split("/")[-3:-1]
            if thing not in CLASSES:
                where = f"{source}/{name}"
                raise refused(where, f"a folder {thing!r}", f"one of {', '.join(CLASSES)}")
            places[domain].append((name, CLASSES.index(thing)))
        parts, done = [], 0
        for domain, pictures in places.items():
            if not pictures:
                raise refused(source, f"no picture of {domain}", _EXPECTED)
            x = np.empty((len(pictures), 3, options.size, options.size), np.uint8)
            for i, (name, _) in enumerate(pictures):
                x[i] = decoded(read(name), f"{source}/{name}", official, options.size)
                done += 1
                if done % 100 == 0 or done == len(names):
                    progress(done, len(names))
            y = np.array([label for _, label in pictures], np.int64)
            parts.append(Part(domain, f"{source}/{domain}", x, y))
    return federation_of("pacs", "object recognition", CLASSES, parts, Counts())
