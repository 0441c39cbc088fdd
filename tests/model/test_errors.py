"""Errors cross processes (Spark's tasks, pools of processes) and are the same there."""

from __future__ import annotations

import copy
import pickle

import pytest

from ottla.model.errors import (
    AdminErrors,
    ConfigError,
    CorruptRecord,
    KafkaError,
    OffsetCommitFailed,
    OttlaError,
)
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.zookeeper_errors import NoNode

EVENTS_0 = TopicAndPartition("events", 0)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("acks is 7"),
        KafkaError(87, "events-0", {3: "it has no key"}),
        OffsetCommitFailed("readers", {EVENTS_0: 22}),
        AdminErrors({"events": KafkaError(36)}, {"words": 1}),
        CorruptRecord("damaged", offset=7, next_offset=8),
        NoNode("/brokers"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_copies_and_pickles_are_the_same(error: OttlaError) -> None:
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert repr(vars(other)) == repr(vars(error))
