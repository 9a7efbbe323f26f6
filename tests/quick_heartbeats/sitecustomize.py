"""Python runs a module of this name at its start: Flower notices in half its time who died.

Flower, which has no setting for it, takes a process for dead that was silent for 2 * 30 s; here for
30 s. An app keeps the 30 s that it has to start. Less is too little: while a SuperLink that was
killed comes back, which takes a busy machine 15 s, nobody hears that the others live.
"""

from flwr.common import constant

vars(constant).update(HEARTBEAT_BASE_MULTIPLIER=0.2, HEARTBEAT_PATIENCE=1)
