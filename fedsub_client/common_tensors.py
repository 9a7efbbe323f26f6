"""Tensors that many people's models have alike, in one file beside theirs.

Of a hundred thousand people who are tested with one model, each one's file would hold it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsub_client.checksum import checksum
from fedsub_core.errors import RunError
from fedsub_core.pytorch import Tensor, as_numpy, load_tensors, save_tensors

#: The folder of such files beside people's, and the fact that names one and what is read from it.
COMMON = "common"
#: The format of a person's file that lacks some tensors.
APART = "fedsub-model 8"


@dataclass(frozen=True, eq=False)
class CommonTensors:
    """Tensors in a file of their own, by their names in the architecture."""

    name: str
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> CommonTensors:
        """Return tensors with the name of a file, which is a digest of them."""
        return cls(f"{checksum(tensors).hex()}.safetensors", dict(tensors))

    def alike(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Return the names of tensors that are these to the bit."""
        return [name for name, own in self.tensors.items() if _same(own, tensors.get(name))]

    def stated(self, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return the facts of a file of `tensors` without those that are these; {}: none are."""
        alike = self.alike(tensors)
        return {"format": APART, COMMON: {"file": self.name, "tensors": alike}} if alike else {}

    def to_bytes(self) -> bytes:
        """Return the file."""
        return save_tensors(self.tensors)


def own_of(stated: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that stand in a person's file itself."""
    elsewhere = stated.get(COMMON, {}).get("tensors", ())
    return {name: tensor for name, tensor in tensors.items() if name not in elsewhere}


def with_common(
    stated: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path | None
) -> dict[str, Tensor]:
    """Return a file's tensors with those that its facts say to be elsewhere.

    Parameters
    ----------
    folder : where the person's file lies; None: nowhere.

    Raises RunError if the other file is missing or damaged. Whether it holds what it held is seen
    by the digest of the person's own.
    """
    if COMMON not in stated:
        return dict(tensors)
    name, names = str(stated[COMMON]["file"]), stated[COMMON]["tensors"]
    file = Path(COMMON, Path(name).name)
    try:
        if folder is None:
            raise FileNotFoundError(f"{file} is not here")
        found = load_tensors((folder / file).read_bytes())
        return dict(sorted({**tensors, **{key: found[key] for key in names}}.items()))
    except Exception as error:  # safetensors has errors of its own for each kind of damage
        raise RunError(
            f"lacks what many people's models have alike ({type(error).__name__}: {error}), "
            f"expected {file} beside it: copy the folder {COMMON}, too, or write one whole file by "
            "`fedsub export --format safetensors`"
        ) from error


def _same(one: Tensor, other: Tensor | None) -> bool:
    if other is None or one.dtype != other.dtype or one.shape != other.shape:
        return False
    return as_numpy(one).tobytes() == as_numpy(other).tobytes()
