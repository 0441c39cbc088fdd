"""What belongs to one process says so to whoever would send it to another."""

from __future__ import annotations

import copy
import pickle

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer, PartitionConsumer, Producer

AT = {"bootstrap.servers": "127.0.0.1:9092"}


def test_clients_and_brokers_are_not_pickled() -> None:
    with (
        Producer(AT) as producer,
        GroupConsumer("orders", AT, group_id="kitchen") as member,
        PartitionConsumer(AT) as consumer,
        Admin(AT) as admin,
        EmbeddedBroker() as broker,
    ):
        for owned in (producer, member, consumer, admin, broker):
            for send in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"{type(owned).__name__} cannot be copied or pickled"):
                    send(owned)
