"""Names of encoders that are modules: code, its weights' file, and a digest of both; no PyTorch.

``my.py:Net@weights.safetensors#1f0c5d9e2b7a4c38`` is the module that `Net` of `my.py` builds, with
the weights of that file. A run's configuration has the digest: so a run that goes on, a device and
a person's model refuse other files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from fedsub_core.errors import ConfigError
from fedsub_core.models.known_code import digest_of
from fedsub_core.models.names import installed

#: The entry points by which packages offer encoders: builders, by a name.
GROUP = "fedsub.encoders"
#: Hexadecimal digits of a digest, and the ending of a file of weights.
DIGITS, WEIGHTS = 16, ".safetensors"
_NAME = r"[^\W\d]\w*"
_PLACE = re.compile(rf"(.+\.py|{_NAME}(\.{_NAME})*):{_NAME}")
_WHOLE = re.compile(rf"([^@#]+)(?:@([^#]+\{WEIGHTS}))?(?:#([0-9a-f]{{{DIGITS}}}))?")


@dataclass(frozen=True)
class NamedModule:
    """An encoder's name, in parts.

    Parameters
    ----------
    code : a builder's place, ``package.module:builder`` or ``file.py:builder``; or the name of an
        entry point of :data:`GROUP`.
    weights : the path of a safetensors file; "": those that the builder sets.
    digest : of the code and of the file of weights; "": any.
    """

    code: str
    weights: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> NamedModule | None:
        """Return the parts of `text`; None where it does not name a module."""
        found = _WHOLE.fullmatch(text)
        if found is None or not (_PLACE.fullmatch(found[1]) or found[1] in installed(GROUP)):
            return None
        return cls(found[1], found[2] or "", found[3] or "")

    @property
    def given(self) -> str:
        """The name as people give it, without a digest."""
        return self.code + (f"@{self.weights}" if self.weights else "")

    @property
    def text(self) -> str:
        """The whole name."""
        return self.given + (f"#{self.digest}" if self.digest else "")

    @property
    def place(self) -> str:
        """The place of its builder."""
        offered = installed(GROUP)
        return offered[self.code].value if self.code in offered else self.code

    def pinned(self) -> NamedModule:
        """Return the name with the digest of what lies here, unless it has one."""
        return self if self.digest else replace(self, digest=self.digest_here())

    def digest_here(self) -> str:
        """Return the digest of what lies here; "" of code that is in no file.

        Raises ConfigError if a file cannot be read.
        """
        where, files = self.place.rpartition(":")[0], [Path(self.weights)] if self.weights else []
        needed = [*files, Path(where)] if where.endswith(".py") else files
        for file in needed:
            if not file.is_file():
                raise ConfigError(
                    f"encoder {self.given!r}: {file}: got no such file, expected one that can be "
                    "read from this folder"
                )
        return (digest_of(self.place, files) or "")[:DIGITS]


def code_of(text: str) -> str:
    """Return the place of the code that an encoder's name means; "" where it means none.

    An installed package's encoder is as trusted as the package: it has none.
    """
    named = NamedModule.parse(text)
    return named.code if named is not None and ":" in named.code else ""
