"""What brokers of different ages list as the versions that they serve, as far as our stub has the APIs."""

from __future__ import annotations

from ottla.wire.version_range import VersionRange

NEW = {
    0: VersionRange(0, 13),
    1: VersionRange(4, 18),
    2: VersionRange(1, 10),
    3: VersionRange(0, 13),
    10: VersionRange(0, 3),
    18: VersionRange(0, 4),
    22: VersionRange(0, 5),
}
"""About what Kafka 4 says of itself. Clients infer more from such a table than versions: librdkafka wants
Produce from 0 to compress at all, FindCoordinator for lz4, and a Fetch to produce format 2."""

OF_KAFKA_0_10 = {
    0: VersionRange(0, 2),
    1: VersionRange(0, 3),
    2: VersionRange(0, 1),
    3: VersionRange(0, 2),
    10: VersionRange(0, 0),
    18: VersionRange(0, 0),
}
"""Message format 1."""

OF_KAFKA_0_9 = {
    0: VersionRange(0, 1),
    1: VersionRange(0, 1),
    2: VersionRange(0, 0),
    3: VersionRange(0, 0),
    10: VersionRange(0, 0),
}
"""Message format 0; clients cannot ask for versions."""
