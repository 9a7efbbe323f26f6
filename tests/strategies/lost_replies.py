"""People who are silent in one exchange of a round."""

from flwr.app import Message

from fedsub_core.secure.messages import SECURE

from .tampered_grid import Reply, Tamper


def lost(kind: str, *clients: str, phase: str = "", round: int = 1, people: int = 4) -> Tamper:
    """Return what drops the replies of some clients to some messages of a round."""

    def drop(reply: Reply) -> Message | None:
        asked = reply.asked.content
        if reply.kind != kind or (phase and SECURE not in asked):
            return reply.message
        of = dict(asked[SECURE]) if phase else {"round": reply.round}
        wanted = of["round"] == round and of.get("phase", "") == phase
        # Nodes are numbered by size, and people here have more samples the later they come.
        gone = wanted and f"p{people + 1 - reply.asked.metadata.dst_node_id}" in clients
        return None if gone else reply.message

    return drop
