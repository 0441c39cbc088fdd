"""The new leader of a partition (KIP-951), in Produce and Fetch responses of a broker that does
not lead it.
"""

from __future__ import annotations

from ottla.wire.schema import field, int32, string, struct, value


@value
class LeaderIdAndEpoch:
    leader_id: int = field(int32, default=-1)
    leader_epoch: int = field(int32, default=-1)


@struct
class NodeEndpoint:
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable_since=0, default=None)
