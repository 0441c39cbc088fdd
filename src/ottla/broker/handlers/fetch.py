"""Fetch, key 1: read record sets, waiting until enough has arrived.

Versions: 0 to 18. 0 and 1 get format 0, 2 and 3 format 1, which cannot have zstd; the others get what is
stored, zstd too: by the book it needs 10, but Kafka sends it, and clients that stay at 4 can read it. Up to 2
a first batch that is too large is cut, from 3 on it comes whole. From 13 on topics are named by id.
Behaviour: bytes come straight from the segment file, undecoded. Sessions (7 and later) are declined by
answering session 0, which every client accepts. There is one copy, so any rack reads from the leader. Without
transactions all that is written is stable: the last stable offset is the high watermark.
"""

from __future__ import annotations

from ottla.broker.fetching import WaitingFetch, attempt
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.fetch import FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse
from ottla.wire.versions import VersionRange

FULL_FETCH_EPOCHS = (-1, 0)
"""A session epoch that asks for everything; others continue a session, and there are none here."""


def handle(inquiry: Inquiry, request: FetchRequest) -> FetchResponse | None:
    """Answer at once with enough bytes or with an error; wait otherwise."""
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=Code.FETCH_SESSION_ID_NOT_FOUND)
    tried = attempt(inquiry, request)
    if tried.is_enough(request):
        return tried.finish(inquiry)
    WaitingFetch(inquiry, request, tried)
    return None


def refuse(request: FetchRequest, error: Code, version: int) -> FetchResponse:
    """One error for every partition, and from 7 on for the whole request."""
    topics = [
        FetchTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                FetchPartitionResponse(
                    partition_index=item.partition, error_code=error, high_watermark=-1, records=b""
                )
                for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(responses=topics, error_code=error if version >= 7 else Code.NONE)


HANDLER = Handler(FetchRequest, VersionRange(0, 18), handle, refuse)
