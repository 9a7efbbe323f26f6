"""Python runs a module of this name at its start: heartbeats in a third of Flower's time.

Flower, which has no setting for it, takes a process for dead that was silent for 2 * 30 s; here for
2/3 * 30 s. An app keeps the 30 s that it has to start.
"""

from flwr.common import constant

vars(constant).update(HEARTBEAT_BASE_MULTIPLIER=0.2, HEARTBEAT_PATIENCE=2 / 3)
