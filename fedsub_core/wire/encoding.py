"""Encodings of a bundle's tensors, as a list of filters: ``delta,top-k:0.25,int8,zstd``."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import ConfigError
from fedsub_core.options import read_share, suggestion

#: Number formats, in the order of the schema; how they are written: ``fedsub_core.wire.numbers``.
FORMATS = ("float32", "bfloat16", "int8")
FILTERS = (*FORMATS, "delta", "top-k:SHARE", "zstd")


@dataclass(frozen=True)
class Encoding:
    """What happens to tensors between a learner or strategy and the wire.

    Parameters
    ----------
    numbers : ``float32`` (exact), ``bfloat16`` or ``int8``.
    delta : send differences from what the receiver holds already. What a lossy format or top-k
        leaves out stays in the next difference: error feedback.
    top_k : of the entries (rows of a matrix, numbers of a vector) that the receiver holds, send
        only this share, those that changed most.
    zstd : compress the message.
    """

    numbers: str = "float32"
    delta: bool = False
    top_k: float = 1.0
    zstd: bool = False

    @property
    def feeds_back(self) -> bool:
        """Whether the sender keeps what the receiver holds or lacks, between rounds."""
        return self.delta or self.numbers != "float32"


@dataclass(frozen=True)
class WireSettings:
    """How a run's messages are written.

    Parameters
    ----------
    upload, download : filters of either direction.
    limit : most bytes of a message that is opened; 0 derives it from the model.
    largest : greatest size of a number that is accepted.
    """

    upload: Encoding = Encoding()
    download: Encoding = Encoding()
    limit: int = 0
    largest: float = 1e6

    @classmethod
    def parse(cls, upload: str, download: str, limit: int, largest: float) -> WireSettings:
        """Return the settings of two lists of filters.

        Raises ConfigError if a list is wrong, or downloads want what only uploads can have.
        """
        up, down = parse_encoding(upload), parse_encoding(download)
        if down.top_k < 1:
            raise ConfigError("download-encoding: top-k is for uploads; leave it out")
        if down.delta and not up.delta:
            raise ConfigError(
                "download-encoding: delta needs delta in upload-encoding, whose rows it refers to"
            )
        return cls(up, down, limit, largest)


def parse_encoding(text: str) -> Encoding:
    """Return the encoding that a comma-separated list of filters describes.

    Raises ConfigError for an unknown filter, two number formats, or top-k without delta.
    """
    numbers: list[str] = []
    delta, zstd, top_k = False, False, 1.0
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, colon, value = part.partition(":")
        if part in FORMATS:
            numbers.append(part)
        elif part == "delta":
            delta = True
        elif part == "zstd":
            zstd = True
        elif name == "top-k" and colon:
            top_k = _share(value, part)
        else:
            hint = suggestion(part, FILTERS)
            raise ConfigError(f"encoding: unknown {part!r}.{hint} Known: {', '.join(FILTERS)}.")
    if len(numbers) > 1:
        raise ConfigError(f"encoding {text!r}: one number format at most, got {numbers}")
    if top_k < 1 and not delta:
        raise ConfigError(f"encoding {text!r}: top-k leaves rows out, which needs delta")
    return Encoding(numbers[0] if numbers else "float32", delta, top_k, zstd)


def _share(value: str, part: str) -> float:
    if (found := read_share(value)) is None:
        raise ConfigError(f"encoding {part!r}: expected a share in (0, 1], such as top-k:0.25")
    return found
