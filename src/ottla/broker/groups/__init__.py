"""The group coordinator as pure state machines: no socket, file, clock or thread.

`Coordinator` decides; its caller, the broker's loop, carries out the `Decision`s and reports back. Start
reading at `coordinator`, then `state` (theory of operation), `rebalance` and `offsets`.
"""

from ottla.broker.groups.config import GroupConfig
from ottla.broker.groups.coordinator import Coordinator
from ottla.broker.groups.decision import Append, Caller, Decision, Reply, Timer
from ottla.broker.groups.records import Record, partition_for

__all__ = [
    "Coordinator",
    "GroupConfig",
    "Caller",
    "Decision",
    "Reply",
    "Append",
    "Timer",
    "Record",
    "partition_for",
]
