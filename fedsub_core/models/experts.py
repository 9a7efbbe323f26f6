"""The experts that a person's mixture may have, by what they are; without PyTorch, for cards."""

from __future__ import annotations

#: Trained alone; trained with a pull, or a strong one, to the common model; the common model, whose
#: embedding is used, too, and which knows classes that the person lacks; the nearest of the
#: person's class means in that embedding; a head of the person's own on the common model's body.
LOCAL, PULLED, STRONG, FUSED, NEAREST, HEAD = EXPERTS = (
    "local",
    "pulled",
    "strong",
    "fused",
    "nearest",
    "head",
)
