"""What recurrent layers do with units: a hidden unit has a row of every gate, and reads itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.coupling.labels import spread
from fedsub_core.models.coupling.tracer import Call, Rule, Tracer

#: Rows of a recurrent layer's weights that a hidden unit has.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(tracer: Tracer, call: Call) -> Any:
    """Follow a recurrent layer of any number of layers and directions.

    PyTorch has one ``hidden_size`` for all of them, so that their units are one group.
    """
    x, hx, weights, biased, layers, _, _, both, _ = (
        call.args if len(call.args) == 9 else (None,) * 9
    )
    parts = 4 if biased else 2
    if x is None or len(weights) != parts * layers * (1 + both):
        raise ConfigError(
            tracer.refusal(f"is an {call.name} of packed samples, or with projections")
        )
    seen = tracer.labels.along(tracer.of(x), -1)
    hidden = _hidden(tracer, weights[0], call.name)
    for layer in range(layers):
        for direction in range(1 + both):
            first = parts * (layer * (1 + both) + direction)
            one = weights[first : first + parts]
            tracer.labels.unite(_hidden(tracer, one[0], call.name), hidden)
            _own_gates(tracer, one, seen, hidden)
        seen = hidden.repeat(1 + both)
    for state in hx if isinstance(hx, tuple) else (hx,):
        tracer.labels.unite(tracer.of(state), hidden)
    each = [spread(seen, -1, call.out[0].shape)]
    return each + [spread(hidden, -1, state.shape) for state in call.out[1:]]


def _cell(tracer: Tracer, call: Call) -> Any:
    """Follow one step of a recurrent layer."""
    x, hx, *weights = call.args
    hidden = _hidden(tracer, weights[0], call.name.removesuffix("_cell"))
    seen = tracer.labels.along(tracer.of(x), -1)
    _own_gates(tracer, weights, seen, hidden)
    for state in hx if isinstance(hx, (tuple, list)) else (hx,):
        tracer.labels.unite(tracer.of(state), hidden)
    return spread(hidden, -1, call.shape)


def _hidden(tracer: Tracer, weight: Tensor, kind: str) -> Tensor:
    """Return hidden units by the rows of weights, of which each has one a gate."""
    rows = tracer.makes(weight, 0).view(_GATES[kind], -1)
    tracer.labels.unite(rows, rows[0])
    return rows[0]


def _own_gates(tracer: Tracer, weights: list[Any], seen: Tensor, hidden: Tensor) -> None:
    """Say whose a step's weights are: of the input, of the state before, and biases."""
    w_ih, w_hh, *_ = weights
    tracer.own(w_ih, 1, seen, reads=True)
    tracer.own(w_hh, 1, hidden, reads=True)
    for weight in weights[1:]:
        tracer.own(weight, 0, tracer.makes(w_ih, 0))


RECURRENT: dict[str, Rule] = {
    **dict.fromkeys(_GATES, _recurrent),
    **{f"{kind}_cell": _cell for kind in _GATES},
}
