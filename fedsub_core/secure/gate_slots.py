"""What a person adds to fedsub-gated's secure sums, for the gate, behind FedSub's slots.

Each round counts who holds samples back. If enough people do for sure, the next asks for what the
gate learns from. Others would add zeros, and a sum of one person and zeros is that person's.
"""

from __future__ import annotations

from fedsub_core.methods.fedsub_gated import GATE_ASKED, gate_shapes
from fedsub_core.methods.fedsub_gated_experts import FedSubGatedHyperparameters
from fedsub_core.models.architecture import Architecture
from fedsub_core.secure.cluster_slots import Layout

#: In a vector: 1 if a person holds samples back.
HOLDS_BACK = "gate.holds-back"


def layout_with_gate(model: Architecture, hyper: FedSubGatedHyperparameters) -> Layout:
    """Return where each number of a vector stands."""
    gate = gate_shapes(hyper)
    return Layout.of(model, hyper, {HOLDS_BACK: (1,), **gate}, dict.fromkeys(gate, GATE_ASKED))
