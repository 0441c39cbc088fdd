"""ShareFetch, key 78: acquire records for a member of a share group, and acknowledge earlier ones.

Versions: 1 and 2. 0 was an early access.
Behaviour: acknowledgements come first, and are stored before the answer leaves. Then the partitions of the
session are read, see `ottla.broker.serving.share_poll`. The last request of a session, and one that renews
locks, gets no records.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_acknowledging import Outcomes, acknowledge, open_session
from ottla.broker.serving.share_poll import SharePoll
from ottla.broker.share_groups.core.sessions import LAST_EPOCH, ShareSession, change
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_fetch import (
    ShareFetchPartitionResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopicResponse,
)


def handle(inquiry: Inquiry, request: ShareFetchRequest) -> ShareFetchResponse | None:
    """Acknowledge, then read."""
    try:
        _, session = open_session(inquiry, request)
    except KafkaError as error:
        return ShareFetchResponse(error_code=Code.of(error.code), error_message=str(error))
    is_last = request.share_session_epoch == LAST_EPOCH
    if not is_last:
        change(
            session,
            ((topic.topic_id, item.partition_index) for topic in request.topics for item in topic.partitions),
            (
                (topic.topic_id, index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            ),
        )
    reads_nothing = is_last or request.is_renew_ack

    def acknowledged(outcomes: Outcomes) -> None:
        if inquiry.link.has_left:
            return
        poll = SharePoll(inquiry, request, ShareSession() if reads_nothing else session, outcomes)
        poll.look()

    acknowledge(inquiry, request, acknowledged)
    return None


def refuse(request: ShareFetchRequest, error: Code, _version: int) -> ShareFetchResponse:
    """One error for every partition, or for the whole request if it names none."""
    topics = [
        ShareFetchTopicResponse(
            topic_id=topic.topic_id,
            partitions=[
                ShareFetchPartitionResponse(
                    partition_index=item.partition_index, error_code=error, records=b""
                )
                for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ShareFetchResponse(responses=topics, error_code=Code.NONE if topics else error)


HANDLER = Handler(handle, refuse)
