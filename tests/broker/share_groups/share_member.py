"""A member of a share group that speaks the protocol by hand, so that a test decides every step."""

from __future__ import annotations

import uuid
from typing import Self

from ottla.broker.embedded import EmbeddedBroker
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.incremental_alter_configs import (
    IncrementalAlterConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterResource,
)
from ottla.wire.api.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.wire.api.share_fetch import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from ottla.wire.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.blocking_client import BlockingClient

GROUP_RESOURCE = 32
Acquired = tuple[int, int, int, int]
"""Partition, first and last offset, delivery count."""


def configure_group(bootstrap: str, group_id: str, **settings: str) -> None:
    """Set settings of a group; by default it begins at the earliest records."""
    values = {"share.auto.offset.reset": "earliest"}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    operations = [
        IncrementalAlterConfig(name=name, config_operation=0, value=value) for name, value in values.items()
    ]
    resource = IncrementalAlterResource(
        resource_type=GROUP_RESOURCE, resource_name=group_id, configs=operations
    )
    with client_of(bootstrap) as client:
        answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert [item.error_code for item in answer.responses] == [0]


def client_of(bootstrap: str) -> BlockingClient:
    """A connection to the only broker."""
    host, _, port = bootstrap.rpartition(":")
    return BlockingClient(host, int(port))


class Member:
    """Joins at once. Each call is one request; sessions continue unless a test says otherwise."""

    def __init__(self, broker: EmbeddedBroker, topics: list[str], group_id: str = "share") -> None:
        self.client = client_of(broker.bootstrap)
        self.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]))
        self.group_id, self.member_id = group_id, str(uuid.uuid4())
        self.member_epoch, self.session_epoch = 0, 0
        self.assigned: list[tuple[bytes, int]] = []
        answer = self.heartbeat(topics)
        assert answer.error_code == 0, answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def heartbeat(
        self, topics: list[str] | None = None, epoch: int | None = None
    ) -> ShareGroupHeartbeatResponse:
        """Report; the assignment is taken over."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.member_epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        answer = self.client.call(request)
        if not answer.error_code:
            self.member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = [
                    (item.topic_id, index)
                    for item in answer.assignment.topic_partitions
                    for index in item.partitions
                ]
        return answer

    def fetch(
        self,
        *,
        epoch: int | None = None,
        max_records: int = 500,
        max_wait_ms: int = 0,
        is_strict: bool = False,
        acknowledged: dict[int, tuple[int, int, int]] | None = None,
    ) -> ShareFetchResponse:
        """Fetch from all assigned partitions, and acknowledge by partition: first, last, type."""
        epoch = self.session_epoch if epoch is None else epoch
        by_topic: dict[bytes, list[ShareFetchPartition]] = {}
        for topic_id, index in self.assigned:
            said = (acknowledged or {}).get(index)
            if epoch == 0 or said:
                wanted = ShareFetchPartition(partition_index=index)
                if said:
                    wanted.acknowledgement_batches = [batch(*said)]
                by_topic.setdefault(topic_id, []).append(wanted)
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=int(is_strict),
            topics=[
                ShareFetchTopic(topic_id=topic_id, partitions=some) for topic_id, some in by_topic.items()
            ],
        )
        answer = self.client.call(request)
        if not answer.error_code:
            self.session_epoch = epoch + 1
        return answer

    def acquire(self, **options: int | bool) -> list[Acquired]:
        """Fetch, and return what was acquired."""
        return acquired(self.fetch(**options))  # type: ignore[arg-type]

    def acknowledge(
        self,
        *batches: AcknowledgementBatch,
        partition: int = 0,
        epoch: int | None = None,
        renew: bool = False,
    ) -> int:
        """Acknowledge records of one partition, and return the error."""
        topic_id = self.assigned[0][0]
        said = AcknowledgePartition(partition_index=partition, acknowledgement_batches=list(batches))
        answer: ShareAcknowledgeResponse = self.client.call(
            ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self.session_epoch if epoch is None else epoch,
                is_renew_ack=renew,
                topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[said])],
            )
        )
        if answer.error_code:
            return answer.error_code
        self.session_epoch += 1
        return answer.responses[0].partitions[0].error_code


def batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    """Acknowledgements of neighbours: one type for all, or one for each."""
    return AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))


def acquired(answer: ShareFetchResponse) -> list[Acquired]:
    """What an answer says that the member holds now."""
    assert answer.error_code == 0, answer
    return [
        (partition.partition_index, item.first_offset, item.last_offset, item.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for item in partition.acquired_records
    ]
