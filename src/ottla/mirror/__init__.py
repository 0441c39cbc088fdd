"""Topics of one cluster into another: consume, send, flush, and only then commit.

`Mirror` is the face. `stream` is the loop of one thread, over a source (`sources`: a member of a classic or
of a modern group) and an `outbox` (what was handed to the producer, and what became of it). `topic_follower`
keeps topics alike; `translation` moves a group's positions to the other cluster, by the `offset_runs` that
streams note.
"""

from ottla.mirror.errors import MirrorFailed, NotTranslatable
from ottla.mirror.mirror import Mirror, MirrorMetrics
from ottla.mirror.outbox import Placement
from ottla.mirror.records import Handler, MirrorRecord, same_partition
from ottla.mirror.translation import RUNS_TOPIC, translate_group

__all__ = [
    "Mirror",
    "MirrorMetrics",
    "MirrorRecord",
    "Handler",
    "Placement",
    "same_partition",
    "translate_group",
    "RUNS_TOPIC",
    "MirrorFailed",
    "NotTranslatable",
]
