"""The topics in a consumer's join metadata (protocol type `consumer`, spec §6.7).

    version i16 | topics [string] | user data | … newer versions append

The coordinator otherwise treats metadata as opaque. It looks here only to know which offsets are in use.
"""

from __future__ import annotations

import struct

from ottla.model.errors import RemoteProtocolError

CONSUMER = "consumer"

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics, by the prefix that all versions share.

    Raises RemoteProtocolError when the bytes are not a subscription: some clients use the type `consumer`
    with a format of their own.
    """
    try:
        _, count = _HEAD.unpack_from(metadata)
        at = _HEAD.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            name = metadata[at : at + length]
            if length < 0 or len(name) < length:
                raise RemoteProtocolError(f"subscription: topic of {length} bytes at position {at}")
            topics.append(name.decode())
            at += length
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"subscription: {error}") from None
    return frozenset(topics)
