"""Copies topics of one cluster into another: consume, send, flush, and only then commit.

`Mirror` is the public face. `stream` is the loop of one thread. It reads from a source (`sources`: a member
of a classic or of a coordinator group) and sends through an `outbox`, which knows the outcome of every
record. `exactly_once` has the transactions of the target; they end at cuts that keep the source's whole
(`cut_source`, `source_cuts`, `source_logs`). `topic_follower` keeps topics alike.
`translation` moves the positions of a group to the other cluster, with the `offset_runs` that streams note.
"""

from ottla.mirror.mirror import Mirror, MirrorMetrics
from ottla.mirror.outbox import MirrorPlacement
from ottla.mirror.records import Handler, MirrorRecord, same_partition
from ottla.mirror.translation import RUNS_TOPIC, translate_group

__all__ = [
    "Mirror",
    "MirrorMetrics",
    "MirrorRecord",
    "Handler",
    "MirrorPlacement",
    "same_partition",
    "translate_group",
    "RUNS_TOPIC",
]
