"""How Flower makes arrays of what came for them, and who may stand in its place.

The same in 1.39 and in 1.42.
"""

from __future__ import annotations

import json
from typing import Any

from flwr.app import Array
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_children_ids_from_object_content,
)


def chunks_of(object_content: bytes) -> list[str]:
    """Return the names of an array's chunks in the order listed, each as often as it is."""
    names = get_object_children_ids_from_object_content(object_content)
    told = json.loads(get_object_body(object_content, Array))
    return [names[number] for number in told["arraychunk_ids"]]


def make_arrays_by(maker: Any) -> None:
    """Have `maker.inflate(object_content, children)` make arrays in place of Flower's Array."""
    inflatable_utils.inflatable_class_registry[Array.__qualname__] = maker
