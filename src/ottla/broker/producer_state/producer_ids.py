"""Producer ids, which are never given out twice, and the answer to InitProducerId without transactions.

    stored end:      0 ──▶ 1000 ────────────────▶ 2000        written before the first id of a block is given
    given out:            0, 1, 2 … 999, then 1000, 1001 …   a restart begins at the stored end: 998 ids lost

An id that is given out twice would lose records in silence: the second producer's first batches would look
like duplicates of the first producer's. So the end of a block is on disk before an id of it leaves the
broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.init_producer_id import InitProducerIdResponse

BLOCK_IDS = 1000  # Kafka's
ID_MAX = (1 << 63) - 1
# Clients may send any id; an id this high was never given out, and no ids would be left after it.
MADE_UP_FROM = 1 << 62


class ProducerIds:
    """Owned by the broker's loop.

    `end`: every id below it may have been given out. `store_end` writes a new end to disk, or raises. `seen`
    are ids in the logs: a data directory of Apache Kafka has no stored end.
    """

    def __init__(self, end: int, store_end: Callable[[int], None], seen: Iterable[int] = ()) -> None:
        behind_seen = max((id_ for id_ in seen if id_ < MADE_UP_FROM), default=-1) + 1
        self._next = self._end = max(end, behind_seen)
        self._store_end = store_end

    def take(self) -> int:
        """Return a new id. Raises what `store_end` raises, and KafkaError -1 if all ids are used."""
        if self._next == self._end:
            end = self._end + BLOCK_IDS
            if end > ID_MAX:
                what = f"producer ids are used up at {self._end}"
                raise KafkaError(Code.UNKNOWN_SERVER_ERROR, what)
            self._store_end(end)
            self._end = end
        self._next += 1
        return self._next - 1


def init_producer_id(ids: ProducerIds) -> InitProducerIdResponse:
    """Answer a request without a transactional id, of any version. Raises what `store_end` raises.

    A producer that names the id and epoch it has (version 3, KIP-360) gets a new id too: without a
    transactional id nobody else can have its records in doubt, and Kafka does the same.
    """
    try:
        return InitProducerIdResponse(producer_id=ids.take(), producer_epoch=0)
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
