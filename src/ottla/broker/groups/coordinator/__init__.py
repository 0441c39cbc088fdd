"""The group coordinator as pure state machines: no socket, file, clock or thread.

`GroupCoordinator` decides; its caller, the broker's loop, carries out the `GroupDecision`s and reports back.
Start reading at `coordinator`, then `state` (theory of operation), `rebalance` and `offsets`.
"""

from ottla.broker.groups.coordinator.coordinator import GroupCoordinator
from ottla.broker.groups.coordinator.decision import GroupDecision, Timer
from ottla.broker.settings.group_config import GroupConfig

__all__ = [
    "GroupCoordinator",
    "GroupConfig",
    "GroupDecision",
    "Timer",
]
