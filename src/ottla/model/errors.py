"""The exception tree. A class exists when a caller would act on it; protocol codes are data.

OttlaError
├── ConfigError (also ValueError)   the caller's settings or arguments: fix them
├── LocalProtocolError              we were about to break the protocol: a bug in the caller
├── RemoteProtocolError             the peer broke it: drop the connection
│   └── CorruptRecord               stored data is damaged: skip it or stop
├── KafkaError                      the peer answered with an error code: look at `retriable`
├── ConnectionLost                  no connection (any more): what has no answer may have happened or not
│   └── BrokerUnreachable           it never came to be: nothing was sent
├── RequestTimedOut                 no answer in time: what was asked may have happened or not
├── AuthenticationFailed            TLS or SASL: trying again does not help, a person fixes the settings
└── StorageError                    the disk refused: nothing of the call happened, it may be tried again
    ├── DamagedLog                  stored batches are broken with sound ones behind them: a person decides
    ├── LogOffline                  an earlier failure could not be undone: open the log again
    └── DirectoryInUse              another broker owns the data directory
"""

from __future__ import annotations

from ottla.model.error_codes import ErrorCode, error_code


class OttlaError(Exception):
    """Root of everything that ottla raises on purpose."""


class ConfigError(OttlaError, ValueError):
    """A setting or argument is wrong; the message names it, its value and what would be right."""


class LocalProtocolError(OttlaError):
    """We were asked to send something that the protocol version cannot carry."""


class RemoteProtocolError(OttlaError):
    """Bytes from the peer do not follow the protocol."""


class CorruptRecord(RemoteProtocolError):
    """A record set is damaged.

    `offset` is where the damaged entry says that it begins (everything before it is sound), `next_offset`
    where a reader that skips it goes on; either is None where the damage hides it.
    """

    def __init__(self, message: str, *, offset: int | None = None, next_offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.next_offset = next_offset


class KafkaError(OttlaError):
    """The peer answered with an error code."""

    def __init__(self, code: int, context: str = "") -> None:
        self.error: ErrorCode = error_code(code)
        text = f"{self.error.name} ({code}): {self.error.text}"
        super().__init__(f"{context}: {text}" if context else text)

    @property
    def code(self) -> int:
        """The number on the wire."""
        return self.error.code

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        return self.error.retriable


class ConnectionLost(OttlaError):
    """The connection broke or was closed. Requests without an answer may have been performed or not."""


class BrokerUnreachable(ConnectionLost):
    """No connection came to be, so nothing was sent; the message names the address, the cause, the remedy."""


class RequestTimedOut(OttlaError):
    """No answer came in time. The request may have been performed, or may be yet."""


class AuthenticationFailed(OttlaError):
    """The two sides do not trust each other: certificates, mechanism or credentials."""


class StorageError(OttlaError):
    """The disk or the file system failed; the message names the file and the cause."""


class DamagedLog(StorageError):
    """A log is damaged in its middle. `position` is the first bad byte of the segment file `path`."""

    def __init__(self, message: str, *, path: str, position: int, offset: int) -> None:
        super().__init__(message)
        self.path = path
        self.position = position
        self.offset = offset


class LogOffline(StorageError):
    """The log's memory and files may differ after a failure on top of a failure; it takes no more calls."""


class DirectoryInUse(StorageError):
    """The data directory is locked by another process, or by another broker of this one."""
