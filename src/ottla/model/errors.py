"""Every exception that a public call can raise, in one tree. All of them can be imported from `ottla`.

A class exists where a caller would act on it; the brokers' error codes are data of KafkaError.

OttlaError
├── ConfigError (also ValueError)   a setting or an argument is wrong: fix it
├── LocalProtocolError              the request cannot be sent in the version that the broker speaks
├── RemoteProtocolError             the broker's bytes do not follow the protocol: the connection is closed
│   └── CorruptRecord               stored records are damaged: skip them or stop
├── KafkaError                      the broker answered with an error code: see `code` and `retriable`
│   └── OffsetsRefused              … for offsets of some partitions: see `failures`
│       ├── OffsetCommitFailed      they were not stored
│       └── OffsetFetchFailed       they could not be read
├── ConnectionLost                  requests without an answer may have been performed or not
│   └── BrokerUnreachable           no connection could be opened, so nothing was sent
├── RequestTimedOut                 no answer in time: the request may have been performed or not
├── AuthenticationFailed            TLS or SASL: trying again does not help, fix the settings
├── StorageError                    the disk failed: the call did nothing and may be tried again
│   ├── DamagedLog                  stored batches are broken in the middle of a log
│   ├── LogOffline                  an earlier failure could not be undone: open the log again
│   └── DirectoryInUse              another broker uses the data directory
├── Unsupported                     neither the brokers nor ZooKeeper can do it
├── AdminErrors                     some of many things failed: see `errors` and `results`
│
├── BufferFull                      Producer: `buffer.memory` was full for `max.block.ms`
├── RecordTooLarge (also ValueError)   Producer: the record does not fit; it was not accepted
├── DeliveryExpired                 Producer: `delivery.timeout.ms` is over
├── ProducerClosed                  Producer: it is closed
├── TransactionAborted              Producer: nothing of the transaction counts: abort it, begin another
├── ProducerFenced                  Producer: its transactional.id is another's now: make another one
│
├── MessageSizeTooLarge             consumers: a message exceeds fetch.message.max.bytes of an old broker
├── ConsumerTimeout                 classic: no message within consumer.timeout.ms; the stream stays open
├── ConsumerRebalanceFailed         classic: every attempt to rebalance failed; the member left its group
├── ConsumerIdInUse                 classic: a live member of the group has the same consumer.id
├── MessageStreamsExist             classic: a connector creates its streams once
├── ListenerFailed                  classic: the application's rebalance listener raised
├── PartitionsLost                  GroupConsumer: the commit came after the partitions went to others
├── ConsumerClosed                  the consumer is closed: make another one
├── ReplayStalled                   replay: nothing could be read for too long
├── NoTimestamps                    replay: bounds are times, and neither broker nor records have any
├── OwnershipLost                   OffsetLedger: another worker has taken the partition over
├── DataLost                        Spark: records that the query was to read are gone
├── MirrorFailed                    Mirror: records could not be sent; they are not committed
├── NotTranslatable                 Mirror: the offset's record is not mirrored yet
├── SimulationFailed                simulation: a seed makes the scenario fail: see `run`
├── SimulationStuck                 simulation: nothing happens any more, or its time is over
│
└── ZooKeeperError                  (ottla.zookeeper.zookeeper_errors draws its branch)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.model.error_codes import Code, ErrorCode, error_code
from ottla.model.topic_partition import TopicAndPartition

_NAMES_SHOWN = 5

_COMMIT_REMEDIES = {
    Code.UNKNOWN_MEMBER_ID: "the group has live members, and only they may commit: stop them first, or use "
    "another group.id",
    Code.ILLEGAL_GENERATION: "the group has live members, and only they may commit: stop them first, or use "
    "another group.id",
    Code.OFFSET_METADATA_TOO_LARGE: "shorten the metadata, or raise the broker's offset.metadata.max.bytes",
}


class OttlaError(Exception):
    """Root of everything that ottla raises on purpose. Copies and pickles have the same text and fields."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[OttlaError], args: tuple[Any, ...], fields: Mapping[str, Any]) -> OttlaError:
    """The error as it was: `args` is its text, not what its class was called with."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigError(OttlaError, ValueError):
    """A setting or an argument is wrong; the message names it, its value and what would be right."""


class LocalProtocolError(OttlaError):
    """The request holds something that the protocol version cannot carry; nothing was sent."""


class RemoteProtocolError(OttlaError):
    """Bytes from the peer do not follow the protocol."""


class CorruptRecord(RemoteProtocolError):
    """A record set is damaged.

    `offset` is the offset in the damaged entry (every record before it is sound), `next_offset` the offset
    where a reader that skips the entry continues. Either is None if the damage hides it.
    """

    def __init__(self, message: str, *, offset: int | None = None, next_offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.next_offset = next_offset


class KafkaError(OttlaError):
    """The broker answered with an error code.

    If it refused records of a batch one by one, `record_errors` has the reason of each by its index in the
    batch.
    """

    def __init__(self, code: int, context: str = "", record_errors: Mapping[int, str] | None = None) -> None:
        self.error: ErrorCode = error_code(code)
        self.record_errors: Mapping[int, str] = record_errors or {}
        text = f"{self.error.name} ({code}): {self.error.text}"
        super().__init__(f"{context}: {text}" if context else text)

    @property
    def code(self) -> int:
        """The number of the error code; `Code` has the names."""
        return self.error.code

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return self.error.retriable


class OffsetsRefused(KafkaError):
    """A coordinator refused offsets of some partitions; `failures` is {partition: error code}.

    `code` is the first of these codes. Partitions that are not in `failures` succeeded.
    """

    _action = "accepted"

    def __init__(self, group: str, failures: Mapping[TopicAndPartition, int]) -> None:
        self.group = group
        self.failures = dict(sorted(failures.items()))
        code = next(iter(self.failures.values()))
        shown = ", ".join(str(topic_partition) for topic_partition in list(self.failures)[:_NAMES_SHOWN])
        more = f" and {len(self.failures) - _NAMES_SHOWN} more" if len(self.failures) > _NAMES_SHOWN else ""
        remedy = _COMMIT_REMEDIES.get(Code.of(code))
        why = f" ({remedy})" if remedy else ""
        super().__init__(code, f"group {group!r}: offsets of {shown}{more} were not {self._action}{why}")


class OffsetCommitFailed(OffsetsRefused):
    """Some offsets were not stored."""

    _action = "committed"


class OffsetFetchFailed(OffsetsRefused):
    """Some offsets could not be read, so it is not known whether there are any."""

    _action = "read"


class ConnectionLost(OttlaError):
    """The connection broke or was closed. Requests without an answer may have been performed or not."""


class BrokerUnreachable(ConnectionLost):
    """No connection could be opened, so nothing was sent; the message names address, cause and remedy."""


class RequestTimedOut(OttlaError):
    """No answer came in time. The request may have been performed, or may still be."""


class AuthenticationFailed(OttlaError):
    """The two sides do not trust each other: certificates, mechanism or credentials."""


class StorageError(OttlaError):
    """The disk or the file system failed; the message names the file and the cause.

    `code` is what a broker answers then.
    """

    code: int = Code.KAFKA_STORAGE_ERROR


class DamagedLog(StorageError):
    """A log is damaged in its middle. `position` is the first bad byte of the segment file `path`."""

    def __init__(self, message: str, *, path: str, position: int, offset: int) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.offset = offset


class LogOffline(StorageError):
    """A failure could not be undone, so the log's memory and files may differ; it takes no more calls."""


class DirectoryInUse(StorageError):
    """The data directory is locked by another process, or by another broker of this process."""


class Unsupported(OttlaError):
    """Neither the brokers nor ZooKeeper can do it; the message says what is missing, and the remedy."""


class AdminErrors(OttlaError):
    """Some of many things failed: `errors` has the failed ones by name, `results` the others."""

    def __init__(self, errors: Mapping[Any, OttlaError], results: Mapping[Any, Any]) -> None:
        self.errors: Mapping[Any, OttlaError] = dict(errors)
        self.results: Mapping[Any, Any] = dict(results)
        shown = "; ".join(_with_name(name, error) for name, error in list(errors.items())[:_NAMES_SHOWN])
        more = f"; and {len(errors) - _NAMES_SHOWN} more" if len(errors) > _NAMES_SHOWN else ""
        count = len(errors) + len(results)
        super().__init__(f"{len(errors)} of {count} failed: {shown}{more}" if count > 1 else shown)


def _with_name(name: object, error: OttlaError) -> str:
    text = str(error)
    return text if str(name).lower() in text.lower() else f"{name}: {text}"


class RecordTooLarge(OttlaError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory`; it was not accepted."""


class DeliveryExpired(OttlaError):
    """`delivery.timeout.ms` is over. The message says whether the records may be in the log all the same."""


class ProducerClosed(OttlaError):
    """The producer is closed, or was closed before the records could be sent."""


class TransactionAborted(OttlaError):
    """The transaction cannot be committed, or was aborted: readers of committed records see nothing of it.

    Call `abort()` unless the transaction is in a `with` block; then the next transaction may begin.
    """


class ProducerFenced(OttlaError):
    """The producer may not write any more: close it, and make another one.

    A newer producer has its transactional.id, or, before Kafka 4, the coordinator has aborted a transaction
    that took longer than transaction.timeout.ms. Nothing of the open transaction counts.
    """


class MessageSizeTooLarge(OttlaError):
    """A message is larger than fetch.message.max.bytes, and the broker is too old to send it anyway.

    `next_offset` is the offset after the message.
    """

    def __init__(self, message: str, *, next_offset: int | None = None) -> None:
        super().__init__(message)
        self.next_offset = next_offset


class ConsumerTimeout(OttlaError):
    """No message came within consumer.timeout.ms; the stream can still be read."""


class ConsumerRebalanceFailed(OttlaError):
    """All attempts to rebalance failed, and rebalance.failure.policy is raise. The member left the group."""


class ConsumerIdInUse(OttlaError):
    """Another live member of the group is registered with the same consumer.id."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} belongs to another session: a member with this consumer.id runs already; "
            "give each member its own consumer.id, or leave it out"
        )
        self.path = path


class MessageStreamsExist(OttlaError):
    """Streams can be created once for a connector."""


class ListenerFailed(OttlaError):
    """The application's rebalance listener raised; the attempt failed, and the cause is attached."""


class PartitionsLost(OttlaError):
    """A commit came too late: other members have the partitions, and read from the last commit on.

    Poll to join again.
    """


class ConsumerClosed(OttlaError):
    """The consumer is closed: make another one."""


class ReplayStalled(OttlaError):
    """Nothing could be read for too long; the message has the partition and its last error."""


class NoTimestamps(OttlaError):
    """The bounds are times, and neither the broker nor its records have any."""


class OwnershipLost(OttlaError):
    """Another worker has started to read the partition; the transaction is rolled back. Stop reading it."""


class DataLost(OttlaError):
    """Records that the query was to read are gone. failOnDataLoss=false continues without them."""


class MirrorFailed(OttlaError):
    """Records could not be sent, and the mirror stops without committing them: the next run sends them."""


class NotTranslatable(OttlaError):
    """An offset has no counterpart in the other cluster: its record is not mirrored yet."""


class SimulationFailed(OttlaError):
    """A scenario has failed under a seed. `run` is its shortest known history, with the faults it needs."""

    def __init__(self, run: Any) -> None:
        super().__init__(str(run))
        self.run = run


class SimulationStuck(OttlaError):
    """Every simulated process waits for something that no other one will do, or the time is over."""
