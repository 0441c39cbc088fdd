"""Producer ids, none of which is ever given out twice, and the answer to InitProducerId.

    stored end:      0 ──▶ 1000 ────────────────▶ 2000        written before the first id of a block is given
    given out:            0, 1, 2 … 999, then 1000, 1001 …   a restart goes on at the stored end: 998 ids lost

An id that came twice would be a silent loss of records: the second producer's first batches would look like
duplicates of the first one's. So the end of a block is on disk before an id of it leaves the broker.

There are no transactions, and a transactional id is refused with 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED. It
is the one fitting code that every client gives up on: librdkafka asks again for ever after any other than 31,
47, 50, 53 and 90. FindCoordinator must answer the same for key type 1, since clients ask that first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

BLOCK_IDS = 1000  # Kafka's
ID_MAX = (1 << 63) - 1
# Clients send what they like; an id up here was never given out, and going on behind it would leave none.
MADE_UP_FROM = 1 << 62


class ProducerIds:
    """Owned by the broker's loop.

    `end`: below it every id may have been given out. `store_end` has the new one on disk when it returns, or
    raises. `seen` are ids that stand in logs: a data directory of Apache Kafka brings no end with it.
    """

    def __init__(self, end: int, store_end: Callable[[int], None], seen: Iterable[int] = ()) -> None:
        behind_seen = max((id_ for id_ in seen if id_ < MADE_UP_FROM), default=-1) + 1
        self._next = self._end = max(end, behind_seen)
        self._store_end = store_end

    def take(self) -> int:
        """A new id. Raises what `store_end` raises, and loses no id then; KafkaError -1 if all are used."""
        if self._next == self._end:
            end = self._end + BLOCK_IDS
            if end > ID_MAX:
                what = f"producer ids are used up at {self._end}"
                raise KafkaError(Code.UNKNOWN_SERVER_ERROR, what)
            self._store_end(end)
            self._end = end
        self._next += 1
        return self._next - 1


def init_producer_id(request: InitProducerIdRequest, ids: ProducerIds) -> InitProducerIdResponse:
    """Answer any version of the request. Raises what `store_end` raises.

    A producer that names the id and epoch it has (version 3, KIP-360) gets a new id too: without a
    transactional id nobody else can have its records in doubt, and Kafka does the same.
    """
    if (request.producer_id == -1) != (request.producer_epoch == -1) or request.transactional_id == "":
        return InitProducerIdResponse(error_code=Code.INVALID_REQUEST, producer_epoch=-1)
    if request.transactional_id is not None:
        return InitProducerIdResponse(
            error_code=Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_epoch=-1
        )
    try:
        return InitProducerIdResponse(producer_id=ids.take(), producer_epoch=0)
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
