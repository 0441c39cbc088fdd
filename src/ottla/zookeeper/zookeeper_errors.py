"""The errors of ZooKeeper, by what a caller can do about them.

ZooKeeperError (an OttlaError)
├── NodeError                 the tree is not as expected: read it again
│   └── NoNode · NodeExists · BadVersion · NotEmpty · NoChildrenForEphemerals
├── ZooKeeperConnectionLost   no answer, the outcome is unknown: read what happened when the session is back
├── SessionLost               the session is over and its ephemerals are gone: register again
├── SessionClosed             not connected yet, or closed by us: a bug in the caller, or a shutdown
├── AccessDenied              the server refuses this client: fix the ACLs or the credentials
├── LimitExceeded             a znode or a list is too large: nothing was sent, or the answer was dropped
├── ZnodeError                a znode holds bytes that cannot be read: log its path and ignore it
└── ServerFailed              the local server could not be started or stopped; the message has the remedy
"""

from __future__ import annotations

from ottla.model.errors import OttlaError


class ZooKeeperError(OttlaError):
    """Root of everything that this package raises, except for wrong arguments (ConfigError)."""


class NodeError(ZooKeeperError):
    """The tree is not as the operation expects; `path` says where."""

    text = "the operation failed"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: {self.text}")
        self.path = path


class NoNode(NodeError):
    """The node, or the parent of the node to be made, does not exist."""

    text = "no such node"


class NodeExists(NodeError):
    """The node to be made is there already."""

    text = "the node exists already"


class BadVersion(NodeError):
    """The node's data changed since the version that the operation names."""

    text = "the node has another version"


class NotEmpty(NodeError):
    """The node to be deleted has children."""

    text = "the node has children"


class NoChildrenForEphemerals(NodeError):
    """The parent of the node to be made is ephemeral."""

    text = "the parent is ephemeral and cannot have children"


class ZooKeeperConnectionLost(ZooKeeperError):
    """No answer came. The operation may have been performed or not; only a later read tells."""


class SessionLost(ZooKeeperError):
    """The session expired: its ephemerals and watches are gone."""


class SessionClosed(ZooKeeperError):
    """The session was never connected, or it was closed."""


class AccessDenied(ZooKeeperError):
    """The server refuses the operation or the credentials."""


class LimitExceeded(ZooKeeperError):
    """Data or a list of children is larger than the session's limit."""


class ZnodeError(ZooKeeperError):
    """The bytes of a znode do not have the expected format."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class ServerFailed(ZooKeeperError):
    """The local ZooKeeper server did not start or stop."""
