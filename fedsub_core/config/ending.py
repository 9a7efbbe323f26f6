"""What ends a method's rounds before the last one, and what is called after each."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.options import option


@dataclass(frozen=True)
class EndSettings:
    """Early stopping on validation parts, and a function of one's own."""

    patience: int = option(
        0,
        "rounds after which a method ends early, if people's best validation macro F1 so far rose "
        "by less than 0.001 on average, or of a target their error fell by less than 0.1 %; needs "
        "best-by = validation; 0: all rounds are run",
        minimum=0,
    )
    on_round: str = option(
        "",
        "my.py:function or package.module:function that the server calls after each round with its "
        "numbers; where it returns True, the method ends; if left out, none",
    )
